// SPDX-License-Identifier: Apache-2.0
//
// What the other sources of this folder do wrong, done right.
#include <trimtab/core/ids.hpp>
#include <trimtab/core/result.hpp>

bool is_hot(trimtab::ExpertId expert) { return expert == trimtab::ExpertId{3}; }

trimtab::Result<int> count() { return 1; }
trimtab::Status check() { return {}; }

int main() {
  const trimtab::ExpertId expert{3};
  const trimtab::Result<int> counted = count();
  const trimtab::Status checked = check();
  return is_hot(expert) && counted && checked ? 0 : 1;
}
