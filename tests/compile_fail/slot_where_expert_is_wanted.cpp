// SPDX-License-Identifier: Apache-2.0
#include <trimtab/core/ids.hpp>

bool is_hot(trimtab::ExpertId expert) { return expert == trimtab::ExpertId{3}; }

int main() { return is_hot(trimtab::SlotId{3}) ? 0 : 1; }
