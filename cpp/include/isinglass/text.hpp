// Sentences, words and stems of UTF-8 text.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace isinglass {

/// What a character is, as bits of one byte.
enum Property : std::uint8_t {
  kSpace = 1,
  kLetter = 2,
  kWord = 4,  // letter, digit or number
  kLower = 8,
  kDigit = 16,
  kDecimal = 32,    // a digit of a place-value system
  kMark = 64,       // combining mark or joiner
  kUnspaced = 128,  // of a script written without spaces: each character is a word of its own
};

/// Properties and case folding of all characters. Filled by the caller, so that the words counted here are those that
/// the rest of the program counts.
class CharacterTable {
 public:
  /// @param properties   of each code point from 0; those beyond the end have none
  /// @param folded       code points that case folding changes, ascending
  /// @param expansion    what each becomes: up to three code points, 0 = none
  CharacterTable(std::vector<std::uint8_t> properties, std::span<const std::uint32_t> folded,
                 std::span<const std::array<std::uint32_t, 3>> expansion);

  std::uint8_t properties(std::uint32_t c) const { return c < properties_.size() ? properties_[c] : 0; }

  /// Whether a word that begins with `c` may be a name: a letter that is not small, or a digit.
  bool capital(std::uint32_t c) const {
    return (properties(c) & kDigit) != 0 || (c < fold_.size() && fold_[c] != 0 && (properties(c) & kLower) == 0);
  }

  /// visit(code point) for each character of the case folding of `c`.
  template <class Visit>
  void fold(std::uint32_t c, Visit&& visit) const {
    const std::uint16_t at = c < fold_.size() ? fold_[c] : 0;
    if (at == 0) return visit(c);
    for (std::uint32_t f : expansion_[at]) {
      if (f != 0) visit(f);
    }
  }

 private:
  std::vector<std::uint8_t> properties_;
  std::vector<std::uint16_t> fold_;  // 0: unchanged; else a row of expansion_
  std::vector<std::array<std::uint32_t, 3>> expansion_;
};

/// Which rule makes the words.
enum class WordRule {
  unicode,  // runs of letters, digits and their marks, case folded
  ascii,    // runs of [A-Za-z0-9], in lower case: Bala (2026)
};

struct Span {
  std::size_t begin = 0, end = 0;  // bytes, end excluded
};

/// Sentences of `text`, without the white space around them. One ends at white space after `.`, `!`, `?` or an
/// ellipsis and any closing quotes or brackets, at a full stop of a script that puts none, and at a blank line; but not
/// after an initial or a common abbreviation, nor before a small letter. `table` may be null for ASCII text.
void cut_sentences(std::string_view text, const CharacterTable* table, std::vector<Span>& sentences);

bool is_ascii(std::string_view text);

/// The first five characters of a folded word, a stemmer without rules; equal exactly when they are equal.
struct Stem {
  std::uint64_t head = 0, tail = 0;
  friend bool operator==(const Stem&, const Stem&) = default;
};

struct Word {
  Stem stem;
  std::uint32_t length = 0;  // characters of the folded word
  bool digits = true;        // no other character among the first five
  bool unspaced = false;
  bool capital = false;  // begins with a capital letter or a digit
};

/// Whether a word says what a text is about: longer than two characters (or, by the Unicode rule, numeric or of an
/// unspaced script) and no stop word of Bala (2026).
bool is_content(const Word& word, WordRule rule);

/// Whether two texts are equal but for case and white space.
bool equal_folded(std::string_view a, std::string_view b, const CharacterTable* table);

/// The code point at `at`, which moves behind it. Surrogates and other ill-formed bytes decode to something, never
/// beyond the end.
inline std::uint32_t next_code_point(std::string_view text, std::size_t& at) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint32_t>(static_cast<unsigned char>(text[i])); };
  const std::uint32_t lead = byte(at);
  const std::size_t length = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  if (length == 1 || at + length > text.size()) {
    ++at;
    return lead;
  }
  std::uint32_t c = lead & (0xffu >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) c = c << 6 | (byte(at + i) & 0x3fu);
  at += length;
  return c;
}

inline constexpr auto kAsciiWord = [] {
  std::array<char, 256> folded{};  // the lower-case letter or digit, 0 for all else
  for (int c = '0'; c <= '9'; ++c) folded[c] = static_cast<char>(c);
  for (int c = 'a'; c <= 'z'; ++c) folded[c] = folded[c - 'a' + 'A'] = static_cast<char>(c);
  return folded;
}();

/// Collects the characters of one word.
class WordBuilder {
 public:
  void add(std::uint32_t c, bool digit) {
    if (word_.length < 5) {
      pack(c, word_.length);
      word_.digits &= digit;
    }
    ++word_.length;
  }
  /// A run of ASCII letters and digits at once.
  void add_ascii(const char* run, std::size_t length) {
    const auto at = [run](std::size_t i) {
      return std::uint64_t{static_cast<unsigned char>(kAsciiWord[static_cast<unsigned char>(run[i])])};
    };
    if (word_.length > 0) {
      for (std::size_t i = 0; i < length && word_.length + i < 5; ++i) {
        pack(static_cast<std::uint32_t>(at(i)), word_.length + static_cast<std::uint32_t>(i));
        word_.digits &= at(i) <= '9';
      }
    } else {
      word_.stem.head = at(0) | (length > 1 ? at(1) << 21 : 0) | (length > 2 ? at(2) << 42 : 0);
      if (length > 3) word_.stem.tail = at(3) | (length > 4 ? at(4) << 21 : 0);
      word_.digits = at(0) <= '9';
      for (std::size_t i = 1; word_.digits && i < length && i < 5; ++i) word_.digits = at(i) <= '9';
    }
    word_.length += static_cast<std::uint32_t>(length);
  }
  void mark_unspaced() { word_.unspaced = true; }
  void mark_capital() { word_.capital = true; }
  bool empty() const { return word_.length == 0; }
  bool unspaced() const { return word_.unspaced; }
  Word take() {
    const Word word = word_;
    word_ = {};
    return word;
  }

 private:
  void pack(std::uint32_t c, std::uint32_t at) {
    (at < 3 ? word_.stem.head : word_.stem.tail) |= static_cast<std::uint64_t>(c) << (21 * (at < 3 ? at : at - 3));
  }

  Word word_;
};

/// visit(word) for each word of `text`, as `word` builds it. `table` may be null where the rule is `ascii` or the text
/// is.
template <class Builder, class Visit>
void build_words(std::string_view text, WordRule rule, const CharacterTable* table, Builder& word, Visit&& visit) {
  const auto end = [&] {
    if (!word.empty()) visit(word.take());
  };
  for (std::size_t at = 0; at < text.size();) {
    const auto byte = static_cast<unsigned char>(text[at]);
    if (kAsciiWord[byte] != 0) {
      if (word.unspaced()) end();
      if (word.empty() && byte <= 'Z') word.mark_capital();
      const std::size_t begin = at;
      do ++at;
      while (at < text.size() && kAsciiWord[static_cast<unsigned char>(text[at])] != 0);
      word.add_ascii(text.data() + begin, at - begin);
      continue;
    }
    if (byte < 0x80 || rule == WordRule::ascii) {
      end();
      ++at;
      continue;
    }
    const std::uint32_t raw = next_code_point(text, at);
    table->fold(raw, [&](std::uint32_t c) {
      const std::uint8_t properties = table->properties(c);
      const bool digit = (properties & kDigit) != 0;
      if ((properties & kMark) != 0) {
        if (!word.empty()) word.add(c, digit);
      } else if ((properties & kWord) == 0) {
        end();
      } else {
        if ((properties & kUnspaced) != 0 || word.unspaced()) end();
        if (word.empty() && table->capital(raw)) word.mark_capital();
        word.add(c, digit);
        if ((properties & kUnspaced) != 0) word.mark_unspaced();
      }
    });
  }
  end();
}

/// visit(Word) for each word of `text`. `table` as in `build_words`.
template <class Visit>
void for_each_word(std::string_view text, WordRule rule, const CharacterTable* table, Visit&& visit) {
  WordBuilder word;
  build_words(text, rule, table, word, std::forward<Visit>(visit));
}

/// Numbers distinct strings from 0, in order of first use.
class StringNumbers {
 public:
  /// The number of `string`; the next one, if it is new.
  std::int32_t number(std::string_view string);
  /// How many there are.
  std::size_t size() const { return ends_.size(); }
  /// The string of a number. Valid until the next new one.
  std::string_view string(std::size_t number) const {
    const std::size_t begin = number == 0 ? 0 : ends_[number - 1];
    return std::string_view(characters_).substr(begin, ends_[number] - begin);
  }

 private:
  struct Slot {
    std::size_t hash = 0;
    std::int32_t number = -1;
  };

  void grow();

  // Open addressing: a string that is known costs a probe or two, and no pointer is followed but to its characters.
  std::vector<Slot> slots_;
  std::vector<std::size_t> ends_;  // of each string in `characters_`
  std::string characters_;
};

/// Numbers the distinct words of texts, from 0, in order of first use.
class WordNumbers {
 public:
  explicit WordNumbers(WordRule rule) : rule_(rule) {}

  /// Appends the numbers of the words of `text`, which is in normal form C. `table` as in `build_words`.
  void encode(std::string_view text, const CharacterTable* table, std::vector<std::int64_t>& numbers);
  /// The words by their numbers, folded.
  std::vector<std::string> words() const;

 private:
  WordRule rule_;
  StringNumbers numbers_;
};

}  // namespace isinglass
