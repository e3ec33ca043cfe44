// SPDX-License-Identifier: Apache-2.0
#include "apps/fovea/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "apps/fovea/output.h"
#include "fovea/base/utf8.h"

namespace fovea {
namespace {

using namespace std::chrono_literals;
constexpr auto kRedraw = 100ms;   // of a terminal
constexpr auto kLineEvery = 30s;  // elsewhere, beside one each tenth of the way
constexpr int kBarCells = 21;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

// Full cells, a half one, the rest dim.
std::string bar(double fraction, int cells, bool color) {
  const int halves = int(std::lround(std::clamp(fraction, 0.0, 1.0) * 2 * cells));
  std::string out = color ? "\033[32m" : "";
  for (int i = 0; i < halves / 2; ++i) out += "━";
  if (halves % 2) out += "╸";
  out += color ? "\033[0m\033[2m" : "";
  for (int i = (halves + 1) / 2; i < cells; ++i) out += color ? "━" : "─";
  return out + (color ? "\033[0m" : "");
}

}  // namespace

bool is_terminal(int descriptor) { return isatty(descriptor) == 1; }

int terminal_width(int descriptor) {
  winsize size = {};
  return ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

bool wants_color(int descriptor) {
  return is_terminal(descriptor) && environment("NO_COLOR").empty() && environment("TERM") != "dumb";
}

std::string fixed(double value, int decimals) {
  char out[64];
  std::snprintf(out, sizeof out, "%.*f", decimals, value);
  return out;
}

std::string short_number(double value) {
  const char* const units[] = {"", " k", " M", " G", " T"};
  size_t unit = 0;
  for (; std::abs(value) >= 999.5 && unit + 1 < std::size(units); ++unit) value /= 1000;
  const int decimals = unit == 0 && value == std::floor(value) ? 0 : value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return fixed(value, decimals) + units[unit];
}

std::string grouped_number(int64_t value) {
  std::string out = std::to_string(value);
  for (int i = int(out.size()) - 3; i > (value < 0 ? 1 : 0); i -= 3) out.insert(size_t(i), 1, ',');
  return out;
}

std::string clock_time(double seconds) {
  const int64_t s = std::max<int64_t>(0, std::llround(std::min(seconds, 1e9)));
  char out[64];
  if (s >= 3600) {
    std::snprintf(out, sizeof out, "%d:%02d:%02d", int(s / 3600), int(s / 60 % 60), int(s % 60));
  } else {
    std::snprintf(out, sizeof out, "%d:%02d", int(s / 60), int(s % 60));
  }
  return out;
}

Progress::Progress(bool quiet)
    : quiet_(quiet),
      terminal_(is_terminal(STDERR_FILENO) && environment("TERM") != "dumb"),
      color_(wants_color(STDERR_FILENO)) {}

Progress::~Progress() { clear(); }

void Progress::show(const ProgressState& state) {
  if (quiet_) return;
  const auto now = Clock::now();
  const int tenth = int(state.fraction * 10);
  const bool done = state.fraction >= 1;
  if (terminal_) {
    if (last_ && now - *last_ < kRedraw && !done) return;
  } else {
    if (!last_) last_ = now, last_tenth_ = tenth;  // nothing is worth a line before some time went by
    if (now - *last_ < kLineEvery && tenth == last_tenth_) return;
  }
  last_ = now;
  last_tenth_ = tenth;
  draw(state);
}

void Progress::draw(const ProgressState& state) {
  const std::string percent = "  " + fixed(100 * state.fraction, 0) + " %";
  const std::string left = state.fraction < 1 ? "  " + clock_time(state.seconds_left) + " left" : "";
  if (!terminal_) {
    tell(" " + state.status + percent + left);
    return;
  }
  // A line that wraps could not be drawn over: the bar gives way first, then the status is cut.
  const int room = terminal_width(STDERR_FILENO) - 1;
  const int fixed_columns = int(count_code_points(state.status) + percent.size() + left.size()) + 3;  // and blanks
  const int cells = std::min(kBarCells, room - fixed_columns);
  std::string line = " " + state.status + "  ";
  if (cells >= 4) line += bar(state.fraction, cells, color_);
  line += percent + left;
  if (cells < 4) {
    size_t end = 0;
    for (int column = 0; column < room && end < line.size(); ++column) decode_utf8(line, end);
    line.resize(end);
  }
  line = "\r" + line + "\033[K";
  [[maybe_unused]] const auto ignored = ::write(STDERR_FILENO, line.data(), line.size());
  drawn_ = true;
}

void Progress::note(std::string_view line) {
  if (quiet_) return;
  clear();
  tell(line);
}

void Progress::clear() {
  if (!drawn_) return;
  [[maybe_unused]] const auto ignored = ::write(STDERR_FILENO, "\r\033[K", 4);
  drawn_ = false;
}

}  // namespace fovea
