// One self-contained HTML file that shows a record: a heat map for each layer and head (web/viewer). It opens from the
// disk, without a network or a server.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "fovea/view/record.h"

namespace fovea {

// `record_json` is what to_json() gives or write_record() wrote; nothing in it can end the page's script early.
// Error(kInput) where it is not JSON.
std::string page_html(std::string_view record_json);

// Replaces the file in one step.
void write_page(const std::filesystem::path& path, const AttentionRecord& record);

}  // namespace fovea
