// SPDX-License-Identifier: Apache-2.0
#include <trimtab/core/result.hpp>

trimtab::Status check() { return {}; }

int main() { check(); }
