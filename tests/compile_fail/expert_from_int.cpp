// SPDX-License-Identifier: Apache-2.0
#include <trimtab/core/ids.hpp>

int main() {
  const trimtab::ExpertId expert = 3;
  return expert.value();
}
