// Base64 (RFC 4648, with padding): numbers inside JSON, bit for bit.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace fovea {

std::string base64(std::string_view bytes);

}  // namespace fovea
