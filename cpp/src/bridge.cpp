#include "isinglass/bridge.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <queue>
#include <stdexcept>
#include <string>

#include "isinglass/elementary.hpp"
#include "isinglass/packing_kernels.hpp"

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

  void reserve(std::size_t rows, std::size_t each) {
    start.reserve(rows + 1);
    value.reserve(rows * each);
  }
  void end_row() { start.push_back(value.size()); }
  void add_row(const std::vector<T>& row) {
    value.insert(value.end(), row.begin(), row.end());
    end_row();
  }
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

/// Fills a Bridge, step by step. Terms are the content stems of the question, numbered first, and of the names of
/// documents; name words are the stems of capitalised words that the question lacks.
class BridgeBuilder {
 public:
  BridgeBuilder(Bridge& bridge, std::span<const std::string_view> titles, std::span<const BridgePassage> passages,
                const BridgeRules& rules)
      : bridge_(bridge),
        sentences_(bridge.sentences_),
        documents_(bridge.documents_),
        titles_(titles),
        passages_(passages),
        rules_(rules) {}

  void build(std::string_view question) {
    for_each_content_word(question, [&](const Word& word) { terms_.add(word.stem); });
    asked_ = terms_.size();
    width_ = bridge_.width_ = (asked_ + 63) / 64;
    cut();
    name_documents();
    read_sentences();
    weigh();
    link_by_title();
    if (rules_.links) link_by_shared_names();
  }

 private:
  template <class Visit>
  void for_each_content_word(std::string_view text, Visit&& visit) const {
    for_each_word(text, rules_.words, rules_.table, [&](const Word& word) {
      if (is_content(word, rules_.words)) visit(word);
    });
  }

  std::size_t size() const { return sentences_.size(); }
  std::uint64_t* bits(std::size_t i) { return &bridge_.bits_[i * width_]; }
  std::string_view piece(std::size_t passage, std::size_t k) const {
    const BridgePassage& given = passages_[passage];
    if (!given.text) return given.pieces[k];
    const Span span = spans_[passage][k];
    return given.text->substr(span.begin, span.end - span.begin);
  }

  void cut() {
    for (const BridgePassage& passage : passages_) {
      if (passage.document >= titles_.size()) {
        throw std::invalid_argument("documents must be numbered below their count");
      }
      if (passage.text) {
        cut_sentences(*passage.text, rules_.table, spans_.value);
      } else {
        for (std::string_view part : passage.pieces) spans_.value.push_back({0, part.size()});
      }
      spans_.end_row();
    }
  }

  /// The name of each document: its title without what stands in parentheses; where it has none and links are asked
  /// for, the capitalised words with which it begins, as an article begins with what it is about.
  void name_documents() {
    title_bits_.resize(titles_.size() * width_);
    name_of_.assign(titles_.size(), kNobody);
    std::vector<std::vector<Term>> found(titles_.size());
    for (std::size_t d = 0; d < titles_.size(); ++d) {
      if (titles_[d].empty()) continue;
      for_each_content_word(without_parentheses(titles_[d]),
                            [&](const Word& word) { found[d].push_back(terms_.add(word.stem)); });
      for_each_word(titles_[d], rules_.words, rules_.table, [&](const Word& word) {
        ++bridge_.title_tokens_[d];
        const Term term = terms_.find(word.stem);
        if (term < asked_ && is_content(word, rules_.words)) set_bit(&title_bits_[d * width_], term);
      });
    }
    for (std::size_t p = 0; rules_.links && p < passages_.size(); ++p) {
      const std::size_t d = passages_[p].document;
      if (!titles_[d].empty() || !passages_[p].opens || spans_[p].empty()) continue;
      bool begun = true;
      for_each_word(piece(p, 0), rules_.words, rules_.table, [&](const Word& word) {
        begun = begun && word.capital;
        if (begun && is_content(word, rules_.words)) found[d].push_back(terms_.add(word.stem));
      });
    }
    std::map<std::vector<Term>, std::size_t> numbers;
    for (std::size_t d = 0; d < titles_.size(); ++d) {
      std::vector<Term>& terms = found[d];
      std::sort(terms.begin(), terms.end());
      terms.erase(std::unique(terms.begin(), terms.end()), terms.end());
      if (terms.empty()) continue;
      const auto [at, is_new] = numbers.try_emplace(terms, names_.size());
      const bool in_question = terms.back() < asked_;
      if (is_new) names_.push_back({std::move(terms), {}, in_question, {}, {}});
      name_of_[d] = at->second;
      names_[at->second].documents.push_back(d);
      documents_[d].in_question = in_question;
    }
  }

  /// Counts the words of each sentence, keeps its terms and names, and drops what was seen before.
  void read_sentences() {
    reserve(spans_.value.size());
    frequency_.assign(terms_.size(), 0);
    last_seen_.assign(terms_.size(), kNobody);
    Copies copies;
    for (std::size_t p = 0; p < passages_.size(); ++p) {
      const BridgePassage& passage = passages_[p];
      std::size_t counted = 0, characters = 0;  // bytes of the text counted so far, and their characters
      const bool one_byte = passage.text && is_ascii(*passage.text);
      for (std::size_t k = 0; k < spans_[p].size(); ++k) {
        const Span span = spans_[p][k];
        const std::string_view text = piece(p, k);
        BridgeSentence sentence{.passage = p, .position = k, .document = passage.document, .span = span};
        sentence.first = passage.opens && k == 0;
        const std::uint64_t hash = read_words(text, sentence.tokens);
        if (one_byte) {
          sentence.characters_before = span.begin;
          sentence.characters = text.size();
        } else if (passage.text) {
          characters += count_characters(passage.text->substr(counted, span.begin - counted));
          counted = span.begin;
          sentence.characters_before = characters;
          sentence.characters = count_characters(text);
        }
        std::size_t same = sentence.tokens > 0 ? copies.first(hash) : kNobody;
        while (same != kNobody && !equal_folded(text, texts_[same], rules_.table)) same = copies.next(same);
        if (sentence.tokens == 0 || same != kNobody) {
          for (Term term : found_terms_) last_seen_[term] = kNobody;
          for (Term name : found_names_) name_seen_[name] = kNobody;
          bridge_.kept_as_.push_back(same);
          continue;
        }
        copies.add(hash);
        for (Term term : found_terms_) ++frequency_[term];
        sentence_terms_.add_row(found_terms_);
        sentence_names_.add_row(found_names_);
        texts_.push_back(text);
        bridge_.kept_as_.push_back(size());
        sentences_.push_back(sentence);
      }
    }
  }

  void reserve(std::size_t expected) {
    sentences_.reserve(expected);
    bridge_.kept_as_.reserve(expected);
    texts_.reserve(expected);
    sentence_terms_.reserve(expected, 8);
    sentence_names_.reserve(expected, rules_.links ? 8 : 0);
  }

  /// Terms and name words of the next sentence into found_*, each once; returns a hash of its words.
  std::uint64_t read_words(std::string_view text, std::uint32_t& tokens) {
    const std::size_t i = size();
    std::uint64_t hash = 0;
    found_terms_.clear();
    found_names_.clear();
    for_each_word(text, rules_.words, rules_.table, [&](const Word& word) {
      ++tokens;
      hash = (hash ^ word.stem.head ^ (word.stem.tail << 21) ^ word.length) * 0xd6e8feb86659fd93u;
      hash ^= hash >> 32;
      const Term term = terms_.find(word.stem);
      const bool is_name = rules_.links && word.capital && term >= asked_;
      if ((term == kNoTerm && !is_name) || !is_content(word, rules_.words)) return;
      if (term != kNoTerm && last_seen_[term] != i) {
        last_seen_[term] = i;
        found_terms_.push_back(term);
      }
      if (is_name) see_name(word.stem, i, found_names_);
    });
    return hash;
  }

  void see_name(const Stem& stem, std::size_t i, std::vector<Term>& found) {
    const Term name = name_words_.add(stem);
    if (name == name_seen_.size()) name_seen_.push_back(kNobody);
    if (name_seen_[name] == i) return;
    name_seen_[name] = i;
    found.push_back(name);
  }

  /// How much of the question each sentence and document matches.
  void weigh() {
    bridge_.idf_.resize(asked_);
    for (std::size_t t = 0; t < asked_; ++t) {
      if (frequency_[t] == 0) continue;
      bridge_.idf_[t] = rarity(frequency_[t]);
      bridge_.total_ += bridge_.idf_[t];
    }
    bridge_.bits_.resize(size() * width_);
    document_bits_ = title_bits_;
    for (std::size_t i = 0; i < size(); ++i) {
      for (Term term : sentence_terms_[i]) {
        if (term >= asked_) continue;
        set_bit(bits(i), term);
        set_bit(&document_bits_[sentences_[i].document * width_], term);
      }
      sentences_[i].match = bridge_.share(bits(i));
    }
  }

  double rarity(std::size_t frequency) const {
    return natural_logarithm(1.0 + static_cast<double>(size()) / static_cast<double>(frequency));
  }

  /// The idf share of the question that a sentence matches together with its title.
  double match_with_title(std::size_t i) {
    with_title_.resize(width_);
    for (std::size_t w = 0; w < width_; ++w) {
      with_title_[w] = bits(i)[w] | title_bits_[sentences_[i].document * width_ + w];
    }
    return bridge_.share(with_title_.data());
  }

  void link_by_title() {
    const Rows<std::size_t> candidates = by_rarest_term(names_, frequency_);
    for (Name& name : names_) {
      if (name.in_question) continue;
      for (std::size_t d : name.documents) name.named.show(bridge_.share(&document_bits_[d * width_]), d, d);
    }
    std::fill(last_seen_.begin(), last_seen_.end(), kNobody);
    for (std::size_t i = 0; i < size(); ++i) {
      BridgeSentence& sentence = sentences_[i];
      for (Term term : sentence_terms_[i]) last_seen_[term] = i;
      std::optional<double> match;
      for (Term term : sentence_terms_[i]) {
        for (std::size_t g : candidates[term]) {
          Name& name = names_[g];
          if (name_of_[sentence.document] == g && name.documents.size() == 1) continue;
          const auto missing = [&](Term t) { return last_seen_[t] != i; };
          if (std::any_of(name.terms.begin(), name.terms.end(), missing)) continue;
          if (!match) match = match_with_title(i);
          name.naming.show(*match, sentence.document, i);
          const BestTwo::Entry& target = name.named.other_than(sentence.document);
          const bool earlier = target.value == sentence.names && target.document < sentence.leads_to;
          if (target.value > sentence.names || (target.value > 0 && earlier)) {
            sentence.names = target.value;
            sentence.leads_to = target.document;
          }
        }
      }
    }
    for (std::size_t d = 0; d < documents_.size(); ++d) {
      if (name_of_[d] == kNobody) continue;
      const BestTwo::Entry& source = names_[name_of_[d]].naming.other_than(d);
      documents_[d].named = source.value;
      documents_[d].through = source.witness;
    }
  }

  /// Rare names that a sentence shares with one of the ten elsewhere that match the question best. Ten, so that time
  /// stays linear; with all of them nothing is won.
  void link_by_shared_names() {
    constexpr std::size_t kSpeakers = 10;
    constexpr double kEnough = 6;  // rarity of shared names that makes a full link: two or three rare ones
    Rows<Term> title_names;
    for (std::size_t d = 0; d < titles_.size(); ++d) {
      // Stamped beyond all sentences, each title with its own number.
      found_names_.clear();
      for_each_content_word(titles_[d], [&](const Word& word) {
        if (word.capital && terms_.find(word.stem) >= asked_) see_name(word.stem, size() + d, found_names_);
      });
      title_names.add_row(found_names_);
    }
    const auto for_each_name = [&](std::size_t i, auto&& visit) {
      for (Term name : sentence_names_[i]) visit(name);
      for (Term name : title_names[sentences_[i].document]) visit(name);
    };
    std::vector<std::size_t> frequency(name_words_.size());
    std::fill(name_seen_.begin(), name_seen_.end(), kNobody);
    for (std::size_t i = 0; i < size(); ++i) {
      for_each_name(i, [&](Term name) {
        if (name_seen_[name] != i) ++frequency[name];
        name_seen_[name] = i;
      });
    }
    std::vector<double> rarities(name_words_.size());
    for (std::size_t t = 0; t < rarities.size(); ++t) {
      if (frequency[t] > 0) rarities[t] = rarity(frequency[t]);
    }
    std::vector<double> match(size());
    std::vector<std::size_t> speakers;
    for (std::size_t i = 0; i < size(); ++i) {
      match[i] = match_with_title(i);
      if (match[i] > 0) speakers.push_back(i);
    }
    const auto best_first = [&](std::size_t a, std::size_t b) {
      return match[a] != match[b] ? match[a] > match[b] : a < b;
    };
    const std::size_t heard = std::min(kSpeakers, speakers.size());
    std::partial_sort(speakers.begin(), speakers.begin() + heard, speakers.end(), best_first);
    speakers.resize(heard);
    std::vector<std::uint8_t> spoken(name_words_.size());
    std::vector<std::size_t> counted(name_words_.size(), kNobody);
    for (std::size_t rank = 0; rank < heard; ++rank) {
      const std::size_t speaker = speakers[rank];
      for (Term name : sentence_names_[speaker]) spoken[name] = 1;
      for (std::size_t i = 0; i < size(); ++i) {
        BridgeSentence& sentence = sentences_[i];
        if (sentence.document == sentences_[speaker].document) continue;
        double shared = 0;
        for_each_name(i, [&](Term name) {
          if (spoken[name] == 0 || counted[name] == rank * size() + i) return;
          counted[name] = rank * size() + i;
          shared += rarities[name];
        });
        const double link = match[speaker] * std::min(1.0, shared / kEnough);
        if (link > sentence.link) {
          sentence.link = link;
          sentence.linked_from = speaker;
        }
      }
      for (Term name : sentence_names_[speaker]) spoken[name] = 0;
    }
    for (std::size_t i = 0; i < size(); ++i) {
      BridgeDocument& document = documents_[sentences_[i].document];
      if (sentences_[i].link > document.linked) {
        document.linked = sentences_[i].link;
        document.linked_at = i;
      }
    }
  }

  Bridge& bridge_;
  std::vector<BridgeSentence>& sentences_;
  std::vector<BridgeDocument>& documents_;
  std::span<const std::string_view> titles_;
  std::span<const BridgePassage> passages_;
  const BridgeRules& rules_;

  Vocabulary terms_, name_words_;
  std::size_t asked_ = 0, width_ = 0;
  Rows<Span> spans_;  // by passage
  std::vector<std::string_view> texts_;
  std::vector<std::uint64_t> title_bits_, document_bits_, with_title_;
  std::vector<Name> names_;
  std::vector<std::size_t> name_of_;  // (documents,)
  std::vector<std::size_t> frequency_, last_seen_, name_seen_;
  std::vector<Term> found_terms_, found_names_;
  Rows<Term> sentence_terms_, sentence_names_;
};

Bridge::Bridge(std::string_view question, std::span<const std::string_view> titles,
               std::span<const BridgePassage> passages, const BridgeRules& rules)
    : documents_(titles.size()), title_tokens_(titles.size()) {
  BridgeBuilder(*this, titles, passages, rules).build(question);
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

namespace {

double norm(std::span<const float> vector) {
  return std::sqrt(packing_kernels().dot(vector.data(), vector.data(), vector.size()));
}

double positive_cosine(std::span<const float> a, double norm_a, std::span<const float> b, double norm_b) {
  const double scale = norm_a * norm_b;
  return scale > 0 ? std::clamp(packing_kernels().dot(a.data(), b.data(), a.size()) / scale, 0.0, 1.0) : 0.0;
}

}  // namespace

void Bridge::embed(std::span<const float> question, std::span<const float> vectors) {
  const std::size_t d = question.size();
  if (vectors.size() != sentences_.size() * d) throw std::invalid_argument("vectors must have a row a sentence");
  vectors_.assign(vectors.begin(), vectors.end());
  norms_.resize(sentences_.size());
  const double asked = norm(question);
  for (std::size_t i = 0; i < norms_.size(); ++i) {
    norms_[i] = norm(vector(i));
    sentences_[i].cosine = positive_cosine(question, asked, vector(i), norms_[i]);
  }
}

double Bridge::similarity(std::size_t a, std::size_t b) const {
  return positive_cosine(vector(a), norms_[a], vector(b), norms_[b]);
}

double Bridge::worth(std::size_t sentence, const BridgeWeights& weights) const {
  const BridgeSentence& s = sentences_[sentence];
  const BridgeDocument& d = documents_[s.document];
  return weights.match * s.match + weights.named * d.named + weights.names * s.names + weights.title * d.in_question +
         weights.first * s.first + weights.link * s.link + weights.linked * d.linked + weights.cosine * s.cosine;
}

namespace {

/// What is chosen so far, and the keys of the rest.
class Choosing {
 public:
  Choosing(const Bridge& bridge, const BridgeWeights& weights, std::span<const std::int64_t> costs)
      : bridge_(bridge),
        costs_(costs),
        fresh_weight_(weights.fresh),
        redundancy_weight_(bridge.embedded() ? weights.redundancy : 0),
        fixed_(bridge.sentences().size()),
        length_(fixed_.size()),
        nearest_(redundancy_weight_ == 0 ? 0 : fixed_.size()),
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
  double key(std::size_t i) {
    return fixed_[i] + fresh_weight_ * fresh(i) - length_[i] - redundancy_weight_ * redundancy(i);
  }
  void choose(std::size_t i) {
    chosen_.push_back(i);
    const auto terms = bridge_.terms(i);
    for (std::size_t w = 0; w < covered_.size(); ++w) covered_[w] |= terms[w];
  }

 private:
  /// Similarity to the nearest of the chosen. Each asks only about those chosen since it last asked.
  double redundancy(std::size_t i) {
    if (redundancy_weight_ == 0) return 0;
    Nearest& nearest = nearest_[i];
    for (; nearest.compared < chosen_.size(); ++nearest.compared) {
      nearest.similarity = std::max(nearest.similarity, bridge_.similarity(i, chosen_[nearest.compared]));
    }
    return nearest.similarity;
  }

  struct Nearest {
    double similarity = 0;
    std::size_t compared = 0;
  };

  const Bridge& bridge_;
  std::span<const std::int64_t> costs_;
  double fresh_weight_, redundancy_weight_;
  std::vector<double> fixed_, length_;
  std::vector<std::size_t> chosen_;
  std::vector<Nearest> nearest_;
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
  for (std::size_t i : chosen) choosing.choose(i);
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
    choosing.choose(i);
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
  // Lazy evaluation (Minoux 1978): keys only fall as terms are covered and sentences repeat
  // chosen ones, so an old key bounds today's from above, and
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
