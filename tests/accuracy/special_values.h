// What the functions give at zeros, infinities, NaN and their domain's ends, in both types.
#pragma once

namespace trek::accuracy {

// Prints what differs; the number of values that do.
int check_special_values();

}  // namespace trek::accuracy
