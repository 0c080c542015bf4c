// Answers in contexts: normalised tokens as numbers, and runs of them found.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "isinglass/text.hpp"

namespace isinglass {

/// Where the articles "a", "an" and "the" are taken out.
enum class Articles {
  words,            // where they are all that stands between white space: Bala (2026)
  word_boundaries,  // wherever no letter, digit or underscore touches them: the scripts of SQuAD and HotpotQA
};

/// Numbers the distinct tokens of normalised texts, from 0.
///
/// Texts come in lower case, for which the caller's rules hold. ASCII punctuation is deleted, white space cuts,
/// articles are taken out. (Rajpurkar et al. 2016, SQuAD; Yang et al. 2018, HotpotQA.)
class TokenNumbers {
 public:
  /// @param table  must outlive this; may be null where all texts are ASCII
  TokenNumbers(Articles articles, const CharacterTable* table) : articles_(articles), table_(table) {}

  /// Appends the numbers of the tokens of `lowered`.
  void add_text(std::string_view lowered, std::vector<std::int32_t>& numbers);
  /// Appends the number of a token that is normalised already.
  void add_token(std::string_view token, std::vector<std::int32_t>& numbers) {
    numbers.push_back(numbers_.number(token));
  }

 private:
  /// Takes the last run of word characters out, if it is an article at a word boundary.
  void end_word(std::vector<std::int32_t>& numbers);
  void end_token(std::vector<std::int32_t>& numbers);

  Articles articles_;
  const CharacterTable* table_;
  StringNumbers numbers_;
  std::string token_;
  std::size_t word_begin_ = 0;
};

/// How a run of tokens stands in a context.
enum class Standing : std::uint8_t {
  absent = 0,
  across = 1,  // only across the border of two snippets
  within = 2,  // in one snippet
};

/// Looks for a run of tokens in a context.
/// @param context  tokens of its snippets, one after the other
/// @param ends     end of each snippet in `context`, ascending, the last being the end of the context
/// @param run      an empty one stands nowhere
Standing find_run(std::span<const std::int32_t> context, std::span<const std::int64_t> ends,
                  std::span<const std::int32_t> run);

}  // namespace isinglass
