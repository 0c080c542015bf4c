#include "isinglass/bridge.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <queue>
#include <stdexcept>
#include <string>

#include "isinglass/elementary.hpp"

namespace isinglass {
namespace {

using Term = std::uint32_t;
constexpr Term kNoTerm = std::numeric_limits<Term>::max();

/// Numbers for the stems of the question and of the titles: no other word of a text can matter.
class Vocabulary {
 public:
  Term add(const Stem& stem) {
    if (2 * (stems_.size() + 1) > slots_.size()) grow();
    Term& slot = slots_[find_slot(stem)];
    if (slot == kNoTerm) {
      slot = static_cast<Term>(stems_.size());
      stems_.push_back(stem);
    }
    return slot;
  }
  Term find(const Stem& stem) const { return stems_.empty() ? kNoTerm : slots_[find_slot(stem)]; }
  std::size_t size() const { return stems_.size(); }

 private:
  std::size_t find_slot(const Stem& stem) const {
    const std::size_t mask = slots_.size() - 1;
    std::size_t slot = hash(stem) & mask;
    while (slots_[slot] != kNoTerm && stems_[slots_[slot]] != stem) slot = (slot + 1) & mask;
    return slot;
  }
  void grow() {
    slots_.assign(std::max<std::size_t>(64, 2 * slots_.size()), kNoTerm);
    for (std::size_t i = 0; i < stems_.size(); ++i) slots_[find_slot(stems_[i])] = static_cast<Term>(i);
  }
  static std::size_t hash(const Stem& stem) {
    const std::uint64_t mixed = (stem.head ^ (stem.tail * 0x9e3779b97f4a7c15u)) * 0xd6e8feb86659fd93u;
    return mixed ^ (mixed >> 32);
  }

  std::vector<Stem> stems_;
  std::vector<Term> slots_;
};

/// `title` with every innermost pair of parentheses and what stands in it blanked: "Blue Lake (film)" names a lake.
std::string without_parentheses(std::string_view title) {
  std::string name(title);
  std::size_t open = std::string::npos;
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (name[i] == '(') open = i;
    if (name[i] == ')' && open != std::string::npos) {
      std::fill(name.begin() + open, name.begin() + i + 1, ' ');
      open = std::string::npos;
    }
  }
  return name;
}

/// The two best of what is shown to it, of different documents, the earlier at equal value: so any document can be
/// told the best of the others in constant time, however many share a name.
struct BestTwo {
  struct Entry {
    double value = 0;
    std::size_t document = kNobody, witness = kNobody;
  };
  Entry best, second;

  void show(double value, std::size_t document, std::size_t witness) {
    if (value > best.value) {
      if (document != best.document) second = best;
      best = {value, document, witness};
    } else if (value > second.value && document != best.document) {
      second = {value, document, witness};
    }
  }
  const Entry& other_than(std::size_t document) const { return best.document != document ? best : second; }
};

/// The documents of one name.
struct Name {
  std::vector<Term> terms;  // ascending
  std::vector<std::size_t> documents;
  bool in_question = false;
  BestTwo naming;  // sentences that name it
  BestTwo named;   // its documents, by their match
};

/// Rows of lists in one array.
template <class T>
struct Rows {
  std::vector<std::size_t> start{0};
  std::vector<T> value;

  void end_row() { start.push_back(value.size()); }
  std::span<const T> operator[](std::size_t row) const {
    return {value.data() + start[row], start[row + 1] - start[row]};
  }
};

/// Names by their rarest term.
Rows<std::size_t> by_rarest_term(const std::vector<Name>& names, std::span<const std::size_t> frequency) {
  std::vector<std::pair<Term, std::size_t>> entries;
  for (std::size_t g = 0; g < names.size(); ++g) {
    if (names[g].in_question) continue;
    const auto& terms = names[g].terms;
    const auto rarer = [&](Term a, Term b) { return frequency[a] < frequency[b]; };
    entries.emplace_back(*std::min_element(terms.begin(), terms.end(), rarer), g);
  }
  std::sort(entries.begin(), entries.end());
  Rows<std::size_t> rows;
  rows.start.reserve(frequency.size() + 1);
  std::size_t at = 0;
  for (Term term = 0; term < frequency.size(); ++term) {
    for (; at < entries.size() && entries[at].first == term; ++at) rows.value.push_back(entries[at].second);
    rows.end_row();
  }
  return rows;
}

/// Finds earlier sentences with the same words: chains of those whose word sequences have one hash.
class Copies {
 public:
  /// The first sentence of the chain of `hash`, or kNobody.
  std::size_t first(std::uint64_t hash) const {
    if (heads_.empty()) return kNobody;
    std::size_t i = heads_[hash & (heads_.size() - 1)];
    while (i != kNobody && hashes_[i] != hash) i = next_[i];
    return i;
  }
  std::size_t next(std::size_t i) const {
    const std::uint64_t hash = hashes_[i];
    do i = next_[i];
    while (i != kNobody && hashes_[i] != hash);
    return i;
  }
  /// Sentences are numbered in the order in which they are added.
  void add(std::uint64_t hash) {
    if (hashes_.size() >= heads_.size()) grow();
    hashes_.push_back(hash);
    next_.push_back(kNobody);
    link(hashes_.size() - 1);
  }

 private:
  void link(std::size_t i) {
    std::size_t& head = heads_[hashes_[i] & (heads_.size() - 1)];
    next_[i] = head;
    head = i;
  }
  void grow() {
    heads_.assign(std::max<std::size_t>(64, 2 * heads_.size()), kNobody);
    for (std::size_t i = 0; i < hashes_.size(); ++i) link(i);
  }

  std::vector<std::size_t> heads_, next_;
  std::vector<std::uint64_t> hashes_;
};

void set_bit(std::uint64_t* bits, Term term) { bits[term / 64] |= std::uint64_t{1} << (term % 64); }

std::size_t count_characters(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

}  // namespace

Bridge::Bridge(std::string_view question, std::span<const std::string_view> titles,
               std::span<const BridgePassage> passages, WordRule rule, const CharacterTable* table)
    : documents_(titles.size()), title_tokens_(titles.size()) {
  Vocabulary vocabulary;
  const auto for_each_stem = [&](std::string_view text, auto&& visit) {
    for_each_word(text, rule, table, [&](const Word& word) {
      if (is_content(word, rule)) visit(word.stem);
    });
  };
  for_each_stem(question, [&](const Stem& stem) { vocabulary.add(stem); });
  const std::size_t asked = vocabulary.size();
  width_ = (asked + 63) / 64;

  // Names, and what of the question each title holds.
  std::vector<std::uint64_t> title_bits(titles.size() * width_);
  std::vector<Name> names;
  std::vector<std::size_t> name_of(titles.size(), kNobody);
  std::map<std::vector<Term>, std::size_t> numbers;
  for (std::size_t d = 0; d < titles.size(); ++d) {
    if (titles[d].empty()) continue;
    std::vector<Term> terms;
    for_each_stem(without_parentheses(titles[d]), [&](const Stem& stem) { terms.push_back(vocabulary.add(stem)); });
    for_each_word(titles[d], rule, table, [&](const Word& word) {
      ++title_tokens_[d];
      const Term term = vocabulary.find(word.stem);
      if (term < asked && is_content(word, rule)) set_bit(&title_bits[d * width_], term);
    });
    std::sort(terms.begin(), terms.end());
    terms.erase(std::unique(terms.begin(), terms.end()), terms.end());
    if (terms.empty()) continue;
    const auto [at, is_new] = numbers.try_emplace(terms, names.size());
    if (is_new) {
      const bool in_question = terms.back() < asked;
      names.push_back({std::move(terms), {}, in_question, {}, {}});
    }
    name_of[d] = at->second;
    names[at->second].documents.push_back(d);
    documents_[d].in_question = names[at->second].in_question;
  }

  // Sentences: cut, count, and keep the terms that are in the vocabulary.
  std::vector<std::size_t> frequency(vocabulary.size());  // sentences with the term
  std::vector<std::size_t> last_seen(vocabulary.size(), kNobody);
  Rows<Term> terms;
  std::vector<Span> spans;
  std::vector<Term> found;
  std::vector<std::string_view> texts;
  Copies copies;
  std::size_t bytes = 0, pieces = 0;
  for (const BridgePassage& passage : passages) {
    bytes += passage.text ? passage.text->size() : 0;
    pieces += passage.pieces.size();
  }
  const std::size_t expected = pieces + bytes / 80;  // sentences
  sentences_.reserve(expected);
  kept_as_.reserve(expected);
  texts.reserve(expected);
  terms.start.reserve(expected + 1);
  terms.value.reserve(8 * expected);
  for (std::size_t p = 0; p < passages.size(); ++p) {
    const BridgePassage& passage = passages[p];
    if (passage.document >= titles.size()) throw std::invalid_argument("documents must be numbered below their count");
    spans.clear();
    if (passage.text) {
      cut_sentences(*passage.text, table, spans);
    } else {
      for (std::string_view piece : passage.pieces) spans.push_back({0, piece.size()});
    }
    std::size_t counted = 0, characters = 0;  // bytes of the text counted so far, and their characters
    const bool one_byte = passage.text && is_ascii(*passage.text);
    for (std::size_t k = 0; k < spans.size(); ++k) {
      const std::string_view text =
          passage.text ? passage.text->substr(spans[k].begin, spans[k].end - spans[k].begin) : passage.pieces[k];
      const std::size_t i = sentences_.size();
      BridgeSentence sentence{.passage = p, .position = k, .document = passage.document, .span = spans[k]};
      sentence.first = passage.opens && k == 0;
      std::uint64_t hash = 0;
      found.clear();
      for_each_word(text, rule, table, [&](const Word& word) {
        ++sentence.tokens;
        hash = (hash ^ word.stem.head ^ (word.stem.tail << 21) ^ word.length) * 0xd6e8feb86659fd93u;
        hash ^= hash >> 32;
        const Term term = vocabulary.find(word.stem);
        if (term == kNoTerm || last_seen[term] == i || !is_content(word, rule)) return;
        last_seen[term] = i;
        found.push_back(term);
      });
      if (one_byte) {
        sentence.characters_before = spans[k].begin;
        sentence.characters = text.size();
      } else if (passage.text) {
        characters += count_characters(passage.text->substr(counted, spans[k].begin - counted));
        counted = spans[k].begin;
        sentence.characters_before = characters;
        sentence.characters = count_characters(text);
      }
      std::size_t same = kNobody;
      if (sentence.tokens > 0) {
        same = copies.first(hash);
        while (same != kNobody && !equal_folded(text, texts[same], table)) same = copies.next(same);
      }
      if (sentence.tokens == 0 || same != kNobody) {
        for (Term term : found) last_seen[term] = kNobody;
        kept_as_.push_back(same);
        continue;
      }
      copies.add(hash);
      for (Term term : found) ++frequency[term];
      terms.value.insert(terms.value.end(), found.begin(), found.end());
      terms.end_row();
      texts.push_back(text);
      kept_as_.push_back(i);
      sentences_.push_back(sentence);
    }
  }

  // How much of the question each sentence and document matches.
  const std::size_t n = sentences_.size();
  idf_.resize(asked);
  for (std::size_t t = 0; t < asked; ++t) {
    if (frequency[t] == 0) continue;
    idf_[t] = natural_logarithm(1.0 + static_cast<double>(n) / static_cast<double>(frequency[t]));
    total_ += idf_[t];
  }
  bits_.resize(n * width_);
  std::vector<std::uint64_t> document_bits(title_bits);
  for (std::size_t i = 0; i < n; ++i) {
    for (Term term : terms[i]) {
      if (term >= asked) continue;
      set_bit(&bits_[i * width_], term);
      set_bit(&document_bits[sentences_[i].document * width_], term);
    }
    sentences_[i].match = share(&bits_[i * width_]);
  }

  // Who names whom.
  const Rows<std::size_t> candidates = by_rarest_term(names, frequency);
  for (Name& name : names) {
    if (name.in_question) continue;
    for (std::size_t d : name.documents) name.named.show(share(&document_bits[d * width_]), d, d);
  }
  std::fill(last_seen.begin(), last_seen.end(), kNobody);
  std::vector<std::uint64_t> with_title(width_);
  for (std::size_t i = 0; i < n; ++i) {
    BridgeSentence& sentence = sentences_[i];
    for (Term term : terms[i]) last_seen[term] = i;
    double match_with_title = -1;
    for (Term term : terms[i]) {
      for (std::size_t g : candidates[term]) {
        Name& name = names[g];
        if (name_of[sentence.document] == g && name.documents.size() == 1) continue;
        if (std::any_of(name.terms.begin(), name.terms.end(), [&](Term t) { return last_seen[t] != i; })) continue;
        if (match_with_title < 0) {
          for (std::size_t w = 0; w < width_; ++w) {
            with_title[w] = bits_[i * width_ + w] | title_bits[sentence.document * width_ + w];
          }
          match_with_title = share(with_title.data());
        }
        name.naming.show(match_with_title, sentence.document, i);
        const BestTwo::Entry& target = name.named.other_than(sentence.document);
        if (target.value > sentence.names ||
            (target.value == sentence.names && target.value > 0 && target.document < sentence.leads_to)) {
          sentence.names = target.value;
          sentence.leads_to = target.document;
        }
      }
    }
  }
  for (std::size_t d = 0; d < documents_.size(); ++d) {
    if (name_of[d] == kNobody) continue;
    const BestTwo::Entry& source = names[name_of[d]].naming.other_than(d);
    documents_[d].named = source.value;
    documents_[d].through = source.witness;
  }
}

double Bridge::share(const std::uint64_t* bits) const {
  double sum = 0;
  for (std::size_t w = 0; w < width_; ++w) {
    for (std::uint64_t rest = bits[w]; rest != 0; rest &= rest - 1) sum += idf_[64 * w + std::countr_zero(rest)];
  }
  return sum > 0 ? sum / total_ : 0;
}

double Bridge::fresh(std::size_t sentence, std::span<const std::uint64_t> covered) const {
  const std::uint64_t* bits = &bits_[sentence * width_];
  double sum = 0;
  for (std::size_t w = 0; w < width_; ++w) {
    for (std::uint64_t rest = bits[w] & ~covered[w]; rest != 0; rest &= rest - 1) {
      sum += idf_[64 * w + std::countr_zero(rest)];
    }
  }
  return sum > 0 ? sum / total_ : 0;
}

double Bridge::worth(std::size_t sentence, const BridgeWeights& weights) const {
  const BridgeSentence& s = sentences_[sentence];
  const BridgeDocument& d = documents_[s.document];
  return weights.match * s.match + weights.named * d.named + weights.names * s.names + weights.title * d.in_question +
         weights.first * s.first;
}

namespace {

/// What is chosen so far, and the keys of the rest.
class Choosing {
 public:
  Choosing(const Bridge& bridge, const BridgeWeights& weights, std::span<const std::int64_t> costs)
      : bridge_(bridge),
        costs_(costs),
        fresh_weight_(weights.fresh),
        fixed_(bridge.sentences().size()),
        length_(fixed_.size()),
        covered_((bridge.idf().size() + 63) / 64) {
    if (!costs.empty() && costs.size() != fixed_.size()) throw std::invalid_argument("costs must be one a sentence");
    for (std::size_t i = 0; i < fixed_.size(); ++i) {
      if (cost(i) <= 0) throw std::invalid_argument("costs must be > 0");
      fixed_[i] = bridge.worth(i, weights);
      length_[i] = weights.length * natural_logarithm(static_cast<double>(cost(i)));
    }
  }

  std::int64_t cost(std::size_t i) const { return costs_.empty() ? bridge_.sentences()[i].tokens : costs_[i]; }
  double fresh(std::size_t i) const { return bridge_.fresh(i, covered_); }
  double key(std::size_t i) const { return fixed_[i] + fresh_weight_ * fresh(i) - length_[i]; }
  void cover(std::size_t i) {
    const auto terms = bridge_.terms(i);
    for (std::size_t w = 0; w < covered_.size(); ++w) covered_[w] |= terms[w];
  }

 private:
  const Bridge& bridge_;
  std::span<const std::int64_t> costs_;
  double fresh_weight_;
  std::vector<double> fixed_, length_;
  std::vector<std::uint64_t> covered_;
};

struct Bid {
  double key;
  std::size_t sentence;
  bool operator<(const Bid& other) const { return key != other.key ? key < other.key : sentence > other.sentence; }
};

}  // namespace

std::vector<double> Bridge::keys(const BridgeWeights& weights, std::span<const std::size_t> chosen,
                                 std::span<const std::int64_t> costs) const {
  Choosing choosing(*this, weights, costs);
  for (std::size_t i : chosen) choosing.cover(i);
  std::vector<double> keys(sentences_.size());
  for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = choosing.key(i);
  return keys;
}

BridgeChoice Bridge::pick(const BridgeWeights& weights, const BridgeLimits& limits) const {
  const std::size_t n = sentences_.size();
  if (!limits.title_costs.empty() && limits.title_costs.size() != documents_.size()) {
    throw std::invalid_argument("title_costs must be one a document");
  }
  Choosing choosing(*this, weights, limits.costs);
  BridgeChoice choice;
  std::vector<std::uint8_t> opened(documents_.size()), taken(n);
  std::int64_t left = limits.budget;
  const auto cost = [&](std::size_t i) {
    const std::size_t d = sentences_[i].document;
    return choosing.cost(i) + (limits.title_costs.empty() || opened[d] ? 0 : limits.title_costs[d]);
  };
  const auto take = [&](std::size_t i) {
    choice.order.push_back(i);
    choice.keys.push_back(choosing.key(i));
    choice.fresh.push_back(choosing.fresh(i));
    left -= cost(i);
    opened[sentences_[i].document] = taken[i] = 1;
    choosing.cover(i);
  };
  for (std::size_t i : limits.pinned) {
    if (taken[i]) continue;
    if (cost(i) > left) throw std::invalid_argument("pinned sentences cost more than the budget");
    take(i);
  }
  std::vector<Bid> bids;
  bids.reserve(n);
  for (std::size_t i = 0; i < n; ++i) {
    if (!taken[i]) bids.push_back({choosing.key(i), i});
  }
  // Lazy evaluation (Minoux 1978): keys only fall as terms are covered, so an old key bounds today's from above, and
  // the top of the heap is the best once its own key is of today. What does not fit now never will: the first pick of
  // its document spares it the title, but has itself paid more than that.
  std::priority_queue<Bid> heap(std::less<Bid>{}, std::move(bids));
  while (!heap.empty() && choice.order.size() < limits.max_items) {
    const Bid top = heap.top();
    heap.pop();
    if (cost(top.sentence) > left) continue;
    if (const double key = choosing.key(top.sentence); key < top.key) {
      heap.push({key, top.sentence});
    } else {
      take(top.sentence);
    }
  }
  choice.cost = limits.budget - left;
  return choice;
}

}  // namespace isinglass
