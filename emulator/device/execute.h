// Executes tiles of nodes: the one way into the units.
#pragma once

#include "emulator/device/block.h"
#include "emulator/device/brought.h"
#include "emulator/device/node.h"

namespace trek::device {

// To be called by one thread, with a sync behind it, before the first task on a block's shared memory.
TREK_UNIT void begin_tasks(const Block& block);

// Executes the tile [first, first + count) of a node, in the terms of plan::Task. All threads of the block
// enter together, with equal arguments; memory that other blocks wrote must be visible to them, and *fault,
// which the block shares, is kNoFault. On return all threads have passed a sync, *fault says whether the
// task trapped (some threads may still be reading it), and the block's shared memory is free. Memory is not
// defined after a trap.
TREK_UNIT void execute(const Block& block, const Node& node, int64_t first, int64_t count,
                       const Environment& environment, Fault* fault);

// execute() in two parts, for who would have to keep `fault` in the meantime: execute_unit() does not look at
// it; where a fault is there, all threads call describe() next.
TREK_UNIT void execute_unit(const Block& block, const Node& node, int64_t first, int64_t count,
                            const Environment& environment, Fault* fault);
TREK_UNIT_CALL void describe(const Block& block);

#ifdef TREK_SM90A
#ifndef TREK_SPECIALISED
// execute() of a tile of a product whose operands have tensor maps, which cannot trap: the one that bring_copied() brings
// meanwhile. It must not be called but be in line (matrix_tensor_90a.h). The sync at the end is the caller's.
TREK_UNIT __attribute__((always_inline)) void execute_copied(const Block& block, const Node& node,
                                                             int64_t tile,
                                                             const Environment& environment);
#endif
// Brings the operands of such a tile; by all lanes of a warp that is none of the block's, to which memory that other
// blocks wrote must be visible. What is brought next.here() says, in memory at next.arena(). Behind the last of them it calls
// next.is_followed(), whether the task that is executed next is such a one, too, and its inputs are there by now;
// next.behind() then says what is brought for that, and there it is said that the ring goes on.
template <class Next>
TREK_UNIT void bring_copied(Next next);
// Tells the block, behind that, that what its task waits for behind its products has come; by the same warp. Compiled
// programs only.
TREK_UNIT void say_late_came(const tensor::Brought& brought);
#endif

// execute() of a tile of a thin product, which cannot trap, from before its inputs are there: `ready()`, which all
// threads call, waits for them and says whether the task is to be executed after all. The sync at the end is the caller's.
template <class Ready>
TREK_TILE void execute_thin(const Block& block, const Node& node, int64_t tile,
                            const Environment& environment, Ready ready);

#if defined(__CUDA__) && !defined(TREK_SPECIALISED)
// The same of a node that is_in_order(). One that waits_interpreted() calls await_inputs() for `ready`, which must do the same.
template <class Ready>
TREK_TILE void execute_in_order(const Block& block, const Node& node, int64_t tile,
                                const Environment& environment, Ready ready);
// execute_unit() of a node that is_early(), from before its inputs are there: it calls await_inputs() itself.
TREK_TILE void execute_early(const Block& block, const Node& node, int64_t first, int64_t count,
                             const Environment& environment, Fault* fault);
#endif

// The wait of such a task: `ready()`, and what its tail wants before all else.
template <class Ready>
TREK_TILE bool thin_is_ready(const Block& block, const Node& node, const Environment& environment,
                             Ready ready);

// The same of a task whose columns stay at a place in shared memory, and of those behind it that have the same columns
// there: `tasks` as of multiply_staying() (matrix_thin_stays.h).
template <class Tasks>
TREK_TILE void execute_stays(const Block& block, Tasks& tasks, std::byte* arena);

// The same of tasks that are executed as GEMV: `tasks` as of multiply_gemv() (matrix_gemv.h).
template <bool kBf16, class Tasks>
TREK_TILE void execute_gemv(const Block& block, Tasks& tasks, std::byte* arena);

// The same of recurrent steps: `tasks` as of multiply_recurrent() (matrix_thin_recurrent.h).
template <class Tasks>
TREK_TILE void execute_recurrent(const Block& block, Tasks& tasks, std::byte* arena);

// execute() of a task of a node that is quick in this way, which cannot trap, from before its inputs are there, and
// perhaps again and again: `turns(turn)`, which all threads call, waits for them and says whether the task is to be
// executed for the turn of that number, after the last of which `turns` says no. The sync at the end is the caller's.
// Quick::rows has its inputs and is executed once, without `turns`; on a host it is execute()'s.
template <Quick kQuick, class Turns>
TREK_UNIT void execute_quick(const Block& block, const Node& node, int64_t first, int64_t count,
                             const Environment& environment, Turns turns);

}  // namespace trek::device

#include "emulator/device/dispatch.h"
