// Row nodes: a row goes through all phases, then through the chain.
#include <vector>

#include "emulator/plan/evaluate.h"

namespace trek::plan {
namespace {

class RowWork {
 public:
  explicit RowWork(Work& work)
      : work_(work),
        shape_(rows_of(work.node)),
        n_(shape_[shape_.rank() - 1]),
        numbers_(work.node.phases.size()),
        kept_(work.node.phases.size()) {}

  void run(int64_t row) {
    run_phases(row);
    for (int64_t k = 0; k < n_ && !work_.node.chain.empty(); ++k)
      work_.write(work_.node.results[0], row * n_ + k, element(work_.node.chain, row, k));
  }
  std::vector<uint64_t> left(int64_t row) {
    run_phases(row);
    std::vector<uint64_t> elements;
    for (int64_t k = 0; k < n_; ++k) elements.push_back(element(work_.node.prologue, row, k));
    return elements;
  }

 private:
  void run_phases(int64_t row) {
    const std::vector<Phase>& phases = work_.node.phases;
    for (size_t p = 0; p < phases.size(); ++p) {
      const Phase& phase = phases[p];
      std::vector<uint64_t> elements;
      for (int64_t k = 0; k < n_ && !phase.elements.empty(); ++k)
        elements.push_back(element(phase.elements, row, k));
      if (phase.kind == Phase::Kind::keep) {
        kept_[p] = std::move(elements);
        continue;
      }
      const uint64_t main = phase.kind == Phase::Kind::reduction
                                ? reduced_bits(phase.opcode, phase.dtype, elements)
                                : 0;
      numbers_[p] = phase.tail.empty() ? main
                                       : work_.run(phase.tail, phase.type.shape, row,
                                                   {{&main, 1}, numbers_}, nullptr);
      if (phase.result != kNone) work_.write(work_.node.results[phase.result], row, numbers_[p]);
    }
  }
  uint64_t element(const std::vector<MicroStep>& program, int64_t row, int64_t k) {
    std::vector<uint64_t> given = numbers_;
    for (size_t p = 0; p < kept_.size(); ++p)
      if (!kept_[p].empty()) given[p] = kept_[p][static_cast<size_t>(k)];
    return work_.run(program, shape_, row * n_ + k, {{}, given}, nullptr);
  }

  Work& work_;
  const isa::Shape& shape_;
  int64_t n_;
  std::vector<uint64_t> numbers_;            // of the row, by phase
  std::vector<std::vector<uint64_t>> kept_;  // elements, by phase
};

}  // namespace

Faulted evaluate_rows(Work& work) {
  RowWork rows(work);
  const isa::Shape& shape = work.node.main_type.shape;
  const bool whole = work.node.tiling == Tiling::whole;
  const int64_t all = shape.elements() / shape[shape.rank() - 1];
  const int64_t first = whole ? 0 : work.task.first;
  const int64_t end = whole ? all : first + work.task.count;
  for (int64_t row = first; row < end; ++row) rows.run(row);
  return std::nullopt;
}

std::vector<uint64_t> left_row(Work& work, int64_t row) { return RowWork(work).left(row); }

}  // namespace trek::plan
