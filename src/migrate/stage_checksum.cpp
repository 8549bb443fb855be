// SPDX-License-Identifier: Apache-2.0
#include "migrate/stage_checksum.hpp"

#include <algorithm>

namespace trimtab {

void BundleChecksum::pass(std::size_t size) noexcept {
  while (size > 0 && part_ < parts_.size()) {
    const auto rest = parts_[part_].subspan(in_part_);
    const auto now = rest.first(std::min(size, rest.size()));
    running_.update(now);
    size -= now.size();
    num_passed_ += now.size();
    in_part_ += now.size();
    if (now.size() == rest.size()) {
      ++part_;
      in_part_ = 0;
    }
  }
}

void BundleChecksum::pass_to(std::size_t offset) noexcept {
  if (offset > num_passed_) pass(offset - num_passed_);
}

}  // namespace trimtab
