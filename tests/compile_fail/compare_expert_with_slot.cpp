// SPDX-License-Identifier: Apache-2.0
#include <trimtab/core/ids.hpp>

int main() { return trimtab::ExpertId{3} == trimtab::SlotId{3} ? 0 : 1; }
