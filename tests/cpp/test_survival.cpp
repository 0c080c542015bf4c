#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "check.hpp"
#include "isinglass/survival.hpp"

using namespace isinglass;

namespace {

/// Characters of the tests that are not ASCII: a dash, which is nothing, and a letter.
CharacterTable few_characters() {
  std::vector<std::uint8_t> properties(0x2014);
  properties[0xe9] = kWord | kLetter;
  properties[0xa0] = kSpace;
  return CharacterTable(properties, {}, {});
}

std::vector<std::int32_t> numbers_of(TokenNumbers& tokens, std::string_view text) {
  std::vector<std::int32_t> numbers;
  tokens.add_text(text, numbers);
  return numbers;
}

}  // namespace

TEST(normalised_tokens_get_one_number_each) {
  const CharacterTable table = few_characters();
  TokenNumbers tokens(Articles::word_boundaries, &table);
  CHECK((numbers_of(tokens, "the jean-luc, a jeanluc!") == std::vector<std::int32_t>{0, 0}));
  CHECK((numbers_of(tokens, "an\u00a0\u00e9t\u00e9 jeanluc") == std::vector<std::int32_t>{1, 0}));
  CHECK(numbers_of(tokens, "").empty());
  CHECK(numbers_of(tokens, "the a. an!").empty());
}

TEST(articles_at_word_boundaries_leave_a_space) {
  const CharacterTable table = few_characters();
  TokenNumbers official(Articles::word_boundaries, &table), published(Articles::words, &table);
  std::vector<std::int32_t> expected;
  official.add_token("x\u2013", expected);
  official.add_token("\u2013y", expected);
  CHECK(numbers_of(official, "x\u2013the\u2013y") == expected);
  CHECK(numbers_of(published, "x\u2013the\u2013y").size() == 1);
}

TEST(runs_stand_within_a_snippet_or_across) {
  const std::vector<std::int32_t> context{1, 2, 3, 1, 1, 2};
  const std::vector<std::int64_t> ends{0, 2, 4, 6};  // the first snippet is empty
  const auto standing = [&](std::vector<std::int32_t> run) { return find_run(context, ends, run); };
  CHECK(standing({1, 2}) == Standing::within);
  CHECK(standing({3, 1}) == Standing::within);
  CHECK(standing({2, 3}) == Standing::across);
  CHECK(standing({1, 2, 3, 1, 1, 2}) == Standing::across);
  CHECK(standing({2, 1}) == Standing::absent);
  CHECK(standing({1, 2, 3, 1, 1, 2, 3}) == Standing::absent);
  CHECK(standing({}) == Standing::absent);
  CHECK(find_run({}, {}, std::vector<std::int32_t>{1}) == Standing::absent);
}
