#include "isinglass/text.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

namespace isinglass {

CharacterTable::CharacterTable(std::vector<std::uint8_t> properties, std::span<const std::uint32_t> folded,
                               std::span<const std::array<std::uint32_t, 3>> expansion)
    : properties_(std::move(properties)), expansion_{{0, 0, 0}} {
  if (folded.size() != expansion.size() || folded.size() >= 0xffff || !std::is_sorted(folded.begin(), folded.end()) ||
      (!folded.empty() && folded.back() >= 0x110000)) {
    throw std::invalid_argument("folded must be ascending code points, each with an expansion");
  }
  if (!folded.empty()) fold_.resize(folded.back() + 1);
  for (std::size_t i = 0; i < folded.size(); ++i) {
    fold_[folded[i]] = static_cast<std::uint16_t>(i + 1);
    expansion_.push_back(expansion[i]);
  }
}

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<signed char>(c) >= 0; });
}

namespace {

constexpr std::array<std::uint8_t, 128> kAscii = [] {
  std::array<std::uint8_t, 128> properties{};
  for (int c : {9, 10, 11, 12, 13, 28, 29, 30, 31, 32}) properties[c] = kSpace;
  for (int c = '0'; c <= '9'; ++c) properties[c] = kWord | kDigit | kDecimal;
  for (int c = 'A'; c <= 'Z'; ++c) properties[c] = kWord | kLetter;
  for (int c = 'a'; c <= 'z'; ++c) properties[c] = kWord | kLetter | kLower;
  return properties;
}();

constexpr std::u32string_view kClosing = U"\"'\u2019\u201d\u00bb)]}\u300d\u300f\uff09\u3011\u3009\u300b";
constexpr std::u32string_view kOpening = U"\"'\u2018\u201c\u00ab([{\u300c\u300e\uff08\u3010\u3008\u300a\u00bf\u00a1";
// Full stops that need no white space after them: East Asian, Indic, Arabic, Ethiopic, Khmer, Myanmar, Tibetan.
constexpr std::u32string_view kWideStops =
    U"\u3002\uff01\uff1f\uff61\u0964\u0965\u061f\u06d4\u1362\u1367\u17d4\u104b\u0f0d";
constexpr char32_t kWideFullStop = U'\uff0e';  // also a decimal point
constexpr char32_t kParagraphSeparator = U'\u2029';

constexpr std::string_view kAbbreviations[] = {
    "mr",   "mrs",  "ms",  "mx",  "dr",  "prof", "rev", "hon", "st",   "ste", "mt",   "ft",  "gen", "col",    "maj",
    "capt", "cmdr", "lt",  "sgt", "cpl", "gov",  "sen", "rep", "pres", "sr",  "jr",   "vs",  "cf",  "approx", "ca",
    "viz",  "al",   "jan", "feb", "mar", "apr",  "jun", "jul", "aug",  "sep", "sept", "oct", "nov", "dec"};
constexpr std::string_view kBeforeNumber[] = {"no", "nos", "vol", "vols", "fig", "figs",
                                              "p",  "pp",  "ch",  "sec",  "art", "op"};

bool contains(std::u32string_view set, std::uint32_t c) {
  return set.find(static_cast<char32_t>(c)) != std::u32string_view::npos;
}

/// Cuts one text; positions are bytes at character boundaries.
class Cutter {
 public:
  Cutter(std::string_view text, const CharacterTable* table) : text_(text), table_(table) {}

  void run(std::vector<Span>& sentences) {
    std::size_t begin = 0, at = 0;
    while (at < text_.size()) {
      const auto byte = static_cast<unsigned char>(text_[at]);
      if (byte < 0x80 && (kAscii[byte] & kSpace) == 0) {
        ++at;
        continue;
      }
      // Nearly all white space is one blank between two words.
      if (byte == ' ' && at > 0 && at + 1 < text_.size() && within_sentence(text_[at - 1], text_[at + 1])) {
        at += 2;
        continue;
      }
      const std::size_t stop = after_wide_stops(at), after = after_space(stop);
      if (after == at) {
        at = behind(at);
        continue;
      }
      const bool wide = stop > at;
      if (wide || blank_line(stop, after) || (after < text_.size() && ends_sentence(stop, after))) {
        add(begin, stop, sentences);
        begin = after;
      }
      at = after;
    }
    add(begin, text_.size(), sentences);
  }

 private:
  std::uint32_t at(std::size_t i) const { return next_code_point(text_, i); }
  std::size_t behind(std::size_t i) const {
    next_code_point(text_, i);
    return i;
  }
  std::size_t before(std::size_t i) const {
    do --i;
    while (i > 0 && (static_cast<unsigned char>(text_[i]) & 0xc0) == 0x80);
    return i;
  }
  std::uint8_t properties(std::size_t i) const {
    const std::uint32_t c = at(i);
    return c < 0x80 ? kAscii[c] : table_->properties(c);
  }
  bool has(std::size_t i, Property property) const { return (properties(i) & property) != 0; }

  /// Whether one blank between these two bytes is no border, whatever stands further out.
  static bool within_sentence(char before, char after) {
    const auto left = static_cast<unsigned char>(before), right = static_cast<unsigned char>(after);
    return (kAsciiWord[left] != 0 || left == ',') && right < 0x80 && (kAscii[right] & kSpace) == 0;
  }

  std::size_t after_space(std::size_t i) const {
    while (i < text_.size() && has(i, kSpace)) i = behind(i);
    return i;
  }

  /// Behind the wide full stops at `i` and the closing quotes that follow them; `i` where there is none.
  std::size_t after_wide_stops(std::size_t i) const {
    const std::size_t first = i;
    while (i < text_.size() && static_cast<unsigned char>(text_[i]) >= 0x80) {
      const std::uint32_t c = at(i);
      const std::size_t next = behind(i);
      const bool decimal_point = c == kWideFullStop && next < text_.size() && has(next, kDecimal);
      if (!contains(kWideStops, c) && (c != kWideFullStop || decimal_point)) break;
      i = next;
    }
    if (i > first) {
      while (i < text_.size() && contains(kClosing, at(i))) i = behind(i);
    }
    return i;
  }

  bool blank_line(std::size_t i, std::size_t end) const {
    bool line_ended = false;
    for (; i < end; i = behind(i)) {
      const std::uint32_t c = at(i);
      if (c == kParagraphSeparator || (c == '\n' && line_ended)) return true;
      line_ended |= c == '\n';
    }
    return false;
  }

  /// Whether the white space [stop, after) follows the end of a sentence.
  bool ends_sentence(std::size_t stop, std::size_t after) const {
    while (stop > 0 && contains(kClosing, at(before(stop)))) stop = before(stop);
    if (stop == 0) return false;
    const std::size_t mark = before(stop);
    const std::uint32_t c = at(mark);
    if (c != '.' && c != '!' && c != '?' && c != 0x2026) return false;
    while (after < text_.size() && contains(kOpening, at(after))) after = behind(after);
    const std::uint8_t following = after < text_.size() ? properties(after) : 0;
    if ((following & kLower) != 0) return false;
    if (c != '.') return true;
    std::size_t begin = mark, letters = 0;
    while (begin > 0 && has(before(begin), kLetter)) {
      begin = before(begin);
      ++letters;
    }
    if (letters == 1 && (begin == 0 || !has(before(begin), kWord))) return false;
    std::string word;
    for (std::size_t i = begin; i < mark && word.size() < 8; ++i) {
      const char letter = kAsciiWord[static_cast<unsigned char>(text_[i])];
      if (letter == 0) return true;
      word.push_back(letter);
    }
    const auto is_in = [&](std::span<const std::string_view> words) {
      return std::find(words.begin(), words.end(), word) != words.end();
    };
    return !is_in(kAbbreviations) && !((following & kDigit) != 0 && is_in(kBeforeNumber));
  }

  void add(std::size_t begin, std::size_t end, std::vector<Span>& sentences) const {
    begin = std::min(after_space(begin), end);
    while (end > begin && has(before(end), kSpace)) end = before(end);
    if (begin < end) sentences.push_back({begin, end});
  }

  std::string_view text_;
  const CharacterTable* table_;
};

std::vector<Stem> stop_words() {
  std::vector<Stem> stems;
  for_each_word(
      "a an the and or of to in on for with by is are was were be been being what which who whom whose where when why "
      "how did does do that this these those as at from it its their his her he she they them same",
      WordRule::ascii, nullptr, [&](const Word& word) { stems.push_back(word.stem); });
  return stems;
}

/// Collects all characters of one word, folded, as UTF-8.
class SpelledWord {
 public:
  void add(std::uint32_t c, bool /*digit*/) {
    if (c < 0x80) {
      spelled_.push_back(static_cast<char>(c));
      return;
    }
    const int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    constexpr std::array<std::uint32_t, 4> kLead{0, 0xc0, 0xe0, 0xf0};
    spelled_.push_back(static_cast<char>(kLead[static_cast<std::size_t>(more)] | c >> (6 * more)));
    for (int i = more - 1; i >= 0; --i) spelled_.push_back(static_cast<char>(0x80 | (c >> (6 * i) & 0x3f)));
  }
  void add_ascii(const char* run, std::size_t length) {
    for (std::size_t i = 0; i < length; ++i) spelled_.push_back(kAsciiWord[static_cast<unsigned char>(run[i])]);
  }
  void mark_unspaced() { unspaced_ = true; }
  void mark_capital() {}
  bool empty() const { return spelled_.empty(); }
  bool unspaced() const { return unspaced_; }
  std::string_view take() {
    taken_.swap(spelled_);
    spelled_.clear();
    unspaced_ = false;
    return taken_;
  }

 private:
  std::string spelled_, taken_;
  bool unspaced_ = false;
};

/// Yields the folded characters of a text, a run of white space as one blank.
class FoldedStream {
 public:
  static constexpr std::uint32_t kEnd = 0xffffffff;

  FoldedStream(std::string_view text, const CharacterTable* table) : text_(text), table_(table) {}

  std::uint32_t next() {
    while (pending_ == held_) {
      if (at_ == text_.size()) return kEnd;
      const std::uint32_t c = next_code_point(text_, at_);
      const bool space = ((c < 0x80 ? kAscii[c] : table_->properties(c)) & kSpace) != 0;
      if (!space) {
        pending_ = held_ = 0;
        const char folded = c < 0x80 ? kAsciiWord[c] : 0;
        if (c < 0x80) {
          buffer_[held_++] = folded != 0 ? static_cast<unsigned char>(folded) : c;
        } else {
          table_->fold(c, [&](std::uint32_t f) { buffer_[held_++] = f; });
        }
      } else if (!in_space_) {
        in_space_ = true;
        return ' ';
      }
      in_space_ = space;
    }
    return buffer_[pending_++];
  }

 private:
  std::string_view text_;
  const CharacterTable* table_;
  std::size_t at_ = 0, pending_ = 0, held_ = 0;
  bool in_space_ = false;
  std::array<std::uint32_t, 3> buffer_{};
};

}  // namespace

void cut_sentences(std::string_view text, const CharacterTable* table, std::vector<Span>& sentences) {
  Cutter(text, table).run(sentences);
}

bool is_content(const Word& word, WordRule rule) {
  static const std::vector<Stem> stops = stop_words();  // none is longer than a stem
  if (word.length <= 2 && (rule == WordRule::ascii || !(word.digits || word.unspaced))) return false;
  return word.length > 5 || std::find(stops.begin(), stops.end(), word.stem) == stops.end();
}

std::int32_t StringNumbers::number(std::string_view string) {
  if (2 * size() >= slots_.size()) grow();
  const std::size_t hash = std::hash<std::string_view>()(string);
  for (std::size_t at = hash;; ++at) {
    Slot& slot = slots_[at & (slots_.size() - 1)];
    if (slot.number < 0) {
      slot = {hash, static_cast<std::int32_t>(size())};
      characters_.append(string);
      ends_.push_back(characters_.size());
      return slot.number;
    }
    if (slot.hash == hash && this->string(static_cast<std::size_t>(slot.number)) == string) return slot.number;
  }
}

void StringNumbers::grow() {
  std::vector<Slot> larger(std::max<std::size_t>(64, 4 * slots_.size()));
  for (const Slot& slot : slots_) {
    if (slot.number < 0) continue;
    std::size_t at = slot.hash;
    while (larger[at & (larger.size() - 1)].number >= 0) ++at;
    larger[at & (larger.size() - 1)] = slot;
  }
  slots_.swap(larger);
}

void WordNumbers::encode(std::string_view text, const CharacterTable* table, std::vector<std::int64_t>& numbers) {
  SpelledWord builder;
  build_words(text, rule_, table, builder, [&](std::string_view word) { numbers.push_back(numbers_.number(word)); });
}

std::vector<std::string> WordNumbers::words() const {
  std::vector<std::string> words;
  for (std::size_t i = 0; i < numbers_.size(); ++i) words.emplace_back(numbers_.string(i));
  return words;
}

bool equal_folded(std::string_view a, std::string_view b, const CharacterTable* table) {
  FoldedStream left(a, table), right(b, table);
  for (;;) {
    const std::uint32_t c = left.next();
    if (c != right.next()) return false;
    if (c == FoldedStream::kEnd) return true;
  }
}

}  // namespace isinglass
