#include "emulator/resident/mail_host.h"

#include <algorithm>
#include <cstring>

#include "emulator/plan/geometry.h"

namespace trek::resident {
namespace {

uint64_t padded(uint64_t bytes, uint64_t to) { return (bytes + to - 1) / to * to; }

}  // namespace

uint64_t MailHost::bytes(const Image& image) {
  uint64_t size = padded(sizeof(Mailbox), 128) + kEmitBytes;
  size += image.streams.size() * sizeof(StreamBox);
  for (const StreamInfo& stream : image.streams) size += 2 * padded(stream.bytes, 16);
  return padded(size, 128);
}

MailHost::MailHost(const plan::Plan& plan, const Image& image, std::span<std::byte> memory,
                   uint64_t device)
    : plan_(plan), memory_(memory), device_(device) {
  ring_ = padded(sizeof(Mailbox), 128);
  stream_boxes_ = ring_ + kEmitBytes;
  blocks_ = stream_boxes_ + image.streams.size() * sizeof(StreamBox);
  std::memset(memory_.data(), 0, blocks_);
  uint64_t place = 0;
  for (size_t i = 0; i < image.streams.size(); ++i) {
    places_.push_back(place);
    place += 2 * padded(image.streams[i].bytes, 16);
    streams_.push_back({image.streams[i], {}, 0, false});
    stream_box(i).end = UINT64_MAX;
  }
  find_listed();
}

void MailHost::find_listed() {
  std::vector<uint32_t> outermost;
  for (uint32_t r = 0; r < plan_.regions.size(); ++r) {
    bool inner = false;
    for (uint32_t p = plan_.regions[r].parent; p != plan::kNone; p = plan_.regions[p].parent)
      inner = inner || plan_.regions[p].is_loop();
    if (plan_.regions[r].is_loop() && !inner) outermost.push_back(r);
  }
  if (outermost.size() != 1) return;
  const plan::Region& loop = plan_.regions[outermost[0]];
  if (loop.static_trips) static_trips_ = loop.trips;
  for (uint32_t n = loop.first_node; n < loop.end_node; ++n)
    if (plan_.nodes[n].opcode == isa::Opcode::Emit && plan_.nodes[n].region == outermost[0])
      listed_.push_back({n});
}

void MailHost::describe(Launch& launch) const {
  launch.mailbox = reinterpret_cast<Mailbox*>(device_);
  launch.emit_ring = reinterpret_cast<unsigned char*>(device_ + ring_);
  launch.streams = reinterpret_cast<StreamBox*>(device_ + stream_boxes_);
  launch.stream_blocks = reinterpret_cast<unsigned char*>(device_ + blocks_);
}

void MailHost::begin() {
  std::memset(static_cast<void*>(&box()), 0, sizeof(Mailbox));
  tail_ = 0;
  in_message_ = false;
  shown_[0] = shown_[1] = {};
  for (Listed& each : listed_) each.received = 0;
}

void MailHost::set_source(uint32_t tensor, StreamSource source) {
  for (size_t i = 0; i < streams_.size(); ++i) {
    Stream& stream = streams_[i];
    if (stream.info.tensor != tensor) continue;
    // What was fetched ahead of the program belonged to the source before.
    StreamBox& box = stream_box(i);
    stream.source = std::move(source);
    stream.filled = load(&box.taken);
    stream.ended = false;
    store(&box.filled, stream.filled);
    store(&box.end, UINT64_MAX);
    return;
  }
}

// Takes over what has arrived of the messages; a message that is complete goes to the callback.
bool MailHost::receive(const RunOptions& options) {
  const uint64_t head = load(&box().emit_head);
  if (head == tail_) return false;
  while (tail_ < head) {
    if (!in_message_) {  // headers never wrap: all places are multiples of 16
      std::memcpy(&header_, at(ring_ + tail_ % kEmitBytes), sizeof header_);
      tail_ += sizeof header_;
      message_.clear();
      message_.reserve(header_.bytes);
      in_message_ = true;
    } else {
      const uint64_t left = header_.bytes - message_.size();
      const uint64_t place = tail_ % kEmitBytes;
      const uint64_t piece = std::min({left, head - tail_, kEmitBytes - place});
      const std::byte* from = at(ring_ + place);
      message_.insert(message_.end(), from, from + piece);
      tail_ += message_.size() == header_.bytes ? padded(piece, 16) : piece;
    }
    if (message_.size() < header_.bytes) continue;
    in_message_ = false;
    const plan::Node& node = plan_.nodes[header_.node];
    const uint32_t text = plan::attribute(node, "name").items[0].index;
    for (Listed& each : listed_)
      if (each.node == header_.node) {
        const uint64_t trips = static_trips_ > 0 ? static_trips_ : load(&box().progress[0].trips);
        show(options, 0, {std::max(each.received, shown_[0].done), trips});
        ++each.received;
      }
    if (options.emit) options.emit({plan_.texts[text], node.operand_types[0], message_});
  }
  store(&box().emit_tail, tail_);
  return true;
}

// Keeps both blocks of a stream filled.
bool MailHost::fill(size_t i) {
  Stream& stream = streams_[i];
  StreamBox& box = stream_box(i);
  if (stream.ended || stream.filled >= load(&box.taken) + 2) return false;
  const uint64_t place = places_[i] + stream.filled % 2 * padded(stream.info.bytes, 16);
  const std::span<std::byte> block(at(blocks_ + place), stream.info.bytes);
  if (stream.source && stream.source(block)) {
    store(&box.filled, ++stream.filled);
  } else {
    stream.ended = true;
    store(&box.end, stream.filled);
  }
  return true;
}

void MailHost::show_progress(const RunOptions& options) {
  for (int level = 0; level < 2; ++level) {
    LoopProgress now = {load(&box().progress[level].done), load(&box().progress[level].trips)};
    if (level == 0 && !listed_.empty()) {
      for (const Listed& each : listed_) now.done = std::min(now.done, each.received);
      now.done = std::max(now.done, shown_[0].done);
    }
    show(options, level, now);
  }
}

void MailHost::show(const RunOptions& options, int level, LoopProgress now) {
  LoopProgress& shown = shown_[level];
  if (!options.progress || (now.done == shown.done && now.trips == shown.trips)) return;
  shown = now;
  options.progress(level, now.done, now.trips);
}

bool MailHost::poll(const RunOptions& options) {
  bool any = receive(options);
  for (size_t i = 0; i < streams_.size(); ++i) any = fill(i) || any;
  if (options.progress) show_progress(options);
  return any;
}

}  // namespace trek::resident
