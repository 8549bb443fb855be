// SPDX-License-Identifier: Apache-2.0
#include <trimtab/core/result.hpp>

trimtab::Result<int> count() { return 1; }

int main() { count(); }
