// SPDX-License-Identifier: Apache-2.0
#include <trimtab/core/ids.hpp>

int main() {
  const trimtab::ExpertId expert = trimtab::SlotId{3};
  return expert.value();
}
