// What a person at a terminal sees of a long run: a bar that is drawn anew; elsewhere a line now and then.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace fovea {

bool is_terminal(int descriptor);
int terminal_width(int descriptor);  // columns; 80 where nobody knows
// A terminal that shows colours, and a user who wants them (NO_COLOR, https://no-color.org; TERM=dumb).
bool wants_color(int descriptor);

// "1.93 G", "31.2 k", "734"; "3,738,418"; "0:41", "1:02:03".
std::string short_number(double value);
std::string grouped_number(int64_t value);
std::string clock_time(double seconds);
// C's printf("%.*g") without exponents for the sizes that losses have.
std::string fixed(double value, int decimals);

struct ProgressState {
  std::string status;   // "step  1200  loss 1.41  …"
  double fraction = 0;  // 0 … 1
  double seconds_left = 0;
};

// Writes to standard error.
class Progress {
 public:
  explicit Progress(bool quiet = false);
  ~Progress();

  void show(const ProgressState& state);
  void note(std::string_view line);  // a line that stays, above the bar
  void clear();                      // takes the bar away

 private:
  using Clock = std::chrono::steady_clock;
  void draw(const ProgressState& state);
  bool quiet_, terminal_, color_;
  bool drawn_ = false;
  std::optional<Clock::time_point> last_;
  int last_tenth_ = -1;
};

}  // namespace fovea
