// Tiles that were measured (tuning.h), remembered from run to run in a file of this user.
//
// $TREK_TUNED names the file, or says `off`; else it is tiles.json of the user's cache. An entry is a product on a
// device, with all that its best tiles depend on, so files of several machines can be one:
//   {"format": "trek tiles", "version": 1, "tiles": [
//     {"device": "NVIDIA H200", "code": "jit sm_90a, compute capability 9.0", "processors": 132, "numerics": "fast",
//      "operands": "bf16", "result": "bf16", "m": 4096, ..., "rows": 128, "columns": 256, "part_columns": 256,
//      "split": 1, "seconds": 6.1e-05}]}
// and "pairs": "depth" or "columns" of tiles that are worked on in pairs, "transposed": true where their parts are.
// What cannot be read is said and ignored: an entry by itself, and left in the file as it is; a file that is none of
// this version as a whole, and never replaced. Writers take turns by a lock on FILE.lock beside it. Nothing here fails: a program runs without what it would have known.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "emulator/plan/measured.h"

namespace trek {

struct RememberedTiles {
  plan::ProductKey product;
  plan::MatrixTiles tiles;
  double seconds = 0;  // that the product took with them
};

// Empty: nowhere.
std::filesystem::path tile_file();

// What `file` has of `device`; none where there is no such file. Appends to `warnings` what is wrong with it, and where.
std::vector<RememberedTiles> read_tiles(const std::filesystem::path& file,
                                        const plan::Device& device,
                                        std::vector<std::string>& warnings);

// Adds to what the file has by now, whoever wrote it, in the place of what it had of the same products; whole or not
// at all. Appends to `warnings` why it was not written; false then.
bool write_tiles(const std::filesystem::path& file, const plan::Device& device,
                 std::span<const RememberedTiles> tiles, std::vector<std::string>& warnings);

}  // namespace trek
