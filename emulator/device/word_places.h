// Where words lie (words.h), and of how many trips. Host and device share this file.
#pragma once

#include "emulator/device/block.h"

namespace trek::device {

// Whether moves have any.
#ifdef TREK_SM90A
inline constexpr bool kHasWords = true;
#else
inline constexpr bool kHasWords = false;
#endif

// Whether thin products have words (matrix_thin_tags.h): in compiled code, and those whose columns stay (matrix_thin_stays.h)
// on Hopper's level where it is interpreted, too.
#if defined(__CUDA__) && (defined(TREK_SPECIALISED) || defined(TREK_SM90A))
#define TREK_HAS_TAGS
inline constexpr bool kHasTags = true;
#else
inline constexpr bool kHasTags = false;
#endif

// Bytes of a word that says which trip its elements are of (words.h).
inline constexpr uint32_t kWord = 8;
// Of a move the words of so many trips lie behind each other, so that it gives some while those before are still read, of
// which a processor executes as many as kTripsTogether without being asked. More do not stay in the second-level cache.
inline constexpr uint32_t kWordTrips = 16;
inline constexpr uint32_t kTripsTogether = 8;
// And of so many tasks a thread keeps where its elements are (word_moves.h).
inline constexpr uint32_t kPlacesKept = 2;

// Where an element's word is, of those that a move gives: in patches of four by four, of 128 bytes, of lines that are a
// multiple of four long, and so as many. Who reads across the lines has a quarter of the requests, and who gives along them
// four times as many as one line after the other would be.
inline constexpr uint32_t kPatch = 4;
TREK_ON_DEVICE inline uint32_t place_in_patches(uint32_t element, uint32_t line) {
  if (line == 0) return element;
  const uint32_t row = element / line;
  const uint32_t column = element - row * line;
  return ((row / kPatch * (line / kPatch) + column / kPatch) * kPatch + row % kPatch) * kPatch +
         column % kPatch;
}

}  // namespace trek::device
