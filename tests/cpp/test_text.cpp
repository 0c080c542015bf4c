#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "check.hpp"
#include "isinglass/bridge.hpp"
#include "isinglass/elementary.hpp"
#include "isinglass/text.hpp"

using namespace isinglass;
using namespace std::string_literals;

namespace {

std::vector<std::string> sentences_of(std::string_view text) {
  std::vector<Span> spans;
  cut_sentences(text, nullptr, spans);
  std::vector<std::string> sentences;
  for (const Span& span : spans) sentences.emplace_back(text.substr(span.begin, span.end - span.begin));
  return sentences;
}

std::vector<Word> words_of(std::string_view text, const CharacterTable* table = nullptr) {
  std::vector<Word> words;
  for_each_word(text, table == nullptr ? WordRule::ascii : WordRule::unicode, table,
                [&](const Word& word) { words.push_back(word); });
  return words;
}

/// ASCII, and a few characters: e acute in both cases, sharp s, one Han character.
CharacterTable small_table() {
  std::vector<std::uint8_t> properties(0x4e01);
  for (int c = '0'; c <= '9'; ++c) properties[c] = kWord | kDigit | kDecimal;
  for (int c = 'a'; c <= 'z'; ++c) properties[c] = kWord | kLetter | kLower;
  properties[0xc9] = kWord | kLetter;
  properties[0xe9] = properties[0xdf] = kWord | kLetter | kLower;
  properties[0x4e00] = kWord | kLetter | kUnspaced;
  const std::uint32_t folded[] = {0xc9, 0xdf};
  const std::array<std::uint32_t, 3> expansion[] = {{0xe9, 0, 0}, {'s', 's', 0}};
  return CharacterTable(std::move(properties), folded, expansion);
}

std::vector<std::size_t> picks(std::string_view question, const std::vector<std::string_view>& titles,
                               const std::vector<std::string_view>& texts, std::int64_t budget) {
  std::vector<BridgePassage> passages;
  for (std::size_t d = 0; d < texts.size(); ++d) passages.push_back({d, true, {}, texts[d]});
  BridgeLimits limits;
  limits.budget = budget;
  return Bridge(question, titles, passages, {WordRule::ascii, false, nullptr}).pick({}, limits).order;
}

}  // namespace

TEST(sentences_end_at_marks_but_not_after_abbreviations) {
  CHECK((sentences_of("Dr. J. Smith left. \"No!\" he said. (Why?) Because. ") ==
         std::vector{"Dr. J. Smith left."s, "\"No!\" he said."s, "(Why?)"s, "Because."s}));
  CHECK((sentences_of("See fig. 3 there.\n\nNew. 5 is odd. no") ==
         std::vector{"See fig. 3 there."s, "New."s, "5 is odd. no"s}));
  CHECK(sentences_of("").empty());
  CHECK(sentences_of(" \n ").empty());
}

TEST(words_fold_and_stems_are_five_characters) {
  CHECK(words_of("Lakes, LAKES lakeside")[0].stem == words_of("lakes")[0].stem);
  CHECK(words_of("lakeside")[0].stem == words_of("lakes")[0].stem);
  CHECK(words_of("lake")[0].stem != words_of("lakes")[0].stem);
  CHECK(words_of("lakeside")[0].length == 8);
  const CharacterTable table = small_table();
  CHECK(words_of("\u00c9t\u00e9", &table)[0].stem == words_of("\u00e9t\u00e9", &table)[0].stem);
  CHECK(words_of("gro\u00df", &table)[0].stem == words_of("gross", &table)[0].stem);
  CHECK(words_of("a\u4e00\u4e00b", &table).size() == 4);
  CHECK(words_of("a\u4e00\u4e00b").size() == 2);
}

TEST(ill_formed_text_ends_where_it_ends) {
  const CharacterTable table = small_table();
  for (std::string_view text : {"\xc3", "a\xe4\xb8", "\xff\xff", "\xed\xa0\x80", "\x80 a. B"}) {
    std::vector<Span> spans;
    cut_sentences(text, &table, spans);
    for (const Span& span : spans) CHECK(span.begin < span.end && span.end <= text.size());
    words_of(text, &table);
  }
}

TEST(equal_but_for_case_and_space) {
  const CharacterTable table = small_table();
  CHECK(equal_folded("A  b", "a B", nullptr));
  CHECK(!equal_folded("a b", "ab", nullptr));
  CHECK(equal_folded("\u00c9", "\u00e9", &table));
}

TEST(logarithm_and_exponential_are_inverse) {
  CHECK(natural_logarithm(1.0) == 0.0);
  CHECK(exponential(0.0) == 1.0);
  for (double x : {1e-3, 0.7, 1.5, 20.0, 1e6}) CHECK(std::abs(exponential(natural_logarithm(x)) / x - 1) < 1e-14);
}

TEST(a_document_named_by_a_matching_sentence_is_taken) {
  const auto chosen = picks("Which river does the largest water of Norland feed?", {"Cats", "Blue Lake", "Norland"},
                            {"Cats sleep. They like milk and the sun.", "It lies low. Its end is the Arn.",
                             "Norland is a county. Its largest water is Blue Lake."},
                            18);
  // Without the link, nothing of Blue Lake shares a word with the question.
  CHECK((chosen == std::vector<std::size_t>{2, 3, 5, 4}));
}

TEST(the_budget_is_hard_and_pinned_sentences_are_paid) {
  CHECK(picks("lake", {"a"}, {"One lake is here. Two."}, 0).empty());
  CHECK((picks("lake", {"a"}, {"One lake is here. Two."}, 3) == std::vector<std::size_t>{1}));
  const std::vector<std::string_view> titles{"a"};
  const std::vector<BridgePassage> passages{{0, true, {}, "One lake is here. Two."}};
  const Bridge bridge("lake", titles, passages, {WordRule::ascii, false, nullptr});
  const std::vector<std::size_t> pinned{0};
  BridgeLimits limits;
  limits.pinned = pinned;
  limits.budget = 3;
  CHECK_THROWS(bridge.pick({}, limits), std::invalid_argument);
  limits.budget = 4;
  CHECK(bridge.pick({}, limits).order == pinned);
}

TEST(strings_are_numbered_by_first_use) {
  StringNumbers numbers;
  CHECK(numbers.number("lake") == 0);
  CHECK(numbers.number("") == 1);
  CHECK(numbers.number("lake") == 0);
  const auto word = [](int k) { return std::to_string(k).append("w"); };  // g++ 12 warns of "w" + string, wrongly
  for (int k = 0; k < 5000; ++k) CHECK(numbers.number(word(k)) == k + 2);
  for (int k = 0; k < 5000; ++k) CHECK(numbers.number(word(k)) == k + 2);
  CHECK(numbers.size() == 5002);
  CHECK(numbers.string(0) == "lake" && numbers.string(1).empty() && numbers.string(5001) == "4999w");
}
