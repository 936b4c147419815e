# shellcheck shell=sh
# kept.sh, sourced by compile.sh and assemble.sh: what was made once for all builds of this user is kept by what it was
# made of, in $TREK_CUBIN_CACHE (~/.cache/trek/cubins; empty: nowhere), for thirty days and while there are 2 GiB of it.

# kept_path: where that is kept which is made of what standard input says, without an ending; nothing: nowhere.
kept_path() {
  hash=$(sha256sum | cut -c 1-40)
  cache=${TREK_CUBIN_CACHE-${XDG_CACHE_HOME:-${HOME:+$HOME/.cache}}}
  [ -n "${TREK_CUBIN_CACHE-}" ] || cache=${cache:+$cache/trek/cubins}
  if [ -n "$cache" ] && mkdir -p "$cache" 2>/dev/null && [ -w "$cache" ]; then echo "$cache/$hash"; fi
}

# keep FILE PATH: whoever finds PATH finds all of it. What there is no room for is not kept.
keep() {
  { cp "$1" "$2.$$" && mv "$2.$$" "$2"; } 2>/dev/null || rm -f "$2.$$"
}

# forget_old PATH: beside PATH.
forget_old() (
  cd "$(dirname "$1")" || return
  find . -maxdepth 1 -type f -mtime +30 -delete
  find . -maxdepth 1 -type f -printf '%T@ %s %f\n' | sort -rn |
    awk '{ bytes += $2 } bytes > 2 * 1024 ^ 3 { print $3 }' | xargs -r rm -f --
)
