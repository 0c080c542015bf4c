#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "arrays.hpp"
#include "controlled.hpp"
#include "isinglass/bridge.hpp"
#include "isinglass/elementary.hpp"
#include "isinglass/parallel.hpp"
#include "isinglass/text.hpp"
#include "strings.hpp"

namespace isinglass {
namespace {

/// The texts of one question.
struct BridgeInput {
  std::string_view question;
  std::vector<std::string_view> titles;
  std::vector<BridgePassage> passages;
  std::vector<std::vector<std::string_view>> pieces;
};

/// @param given  (question, titles of the documents, document of each passage, whether it opens it, its text or
/// pieces);
///               None for the documents and their openings where each passage is a document of its own
BridgeInput read_input(const py::tuple& given, Strings& strings) {
  BridgeInput input;
  input.question = strings.view(given[0]);
  for (py::handle title : given[1].cast<py::list>()) input.titles.push_back(strings.view(title));
  const bool numbered = !given[2].is_none();
  const auto documents = numbered ? given[2].cast<py::list>() : py::list();
  const auto opens = numbered ? given[3].cast<py::list>() : py::list();
  const auto texts = given[4].cast<py::list>();
  input.passages.reserve(texts.size());
  input.pieces.reserve(texts.size());
  for (std::size_t p = 0; p < texts.size(); ++p) {
    BridgePassage passage;
    passage.document = numbered ? documents[p].cast<std::size_t>() : p;
    passage.opens = !numbered || opens[p].cast<bool>();
    if (const py::handle text = texts[p]; PyUnicode_Check(text.ptr())) {
      passage.text = strings.view(text);
    } else {
      auto& pieces = input.pieces.emplace_back();
      for (py::handle piece : text.cast<py::list>()) pieces.push_back(strings.view(piece));
      passage.pieces = pieces;
    }
    input.passages.push_back(passage);
  }
  return input;
}

/// ASCII words are the published rule, which knows no links.
std::unique_ptr<Bridge> build(const BridgeInput& input, bool ascii_words, const CharacterTable* table) {
  const BridgeRules rules{ascii_words ? WordRule::ascii : WordRule::unicode, !ascii_words, table};
  return std::make_unique<Bridge>(input.question, input.titles, input.passages, rules);
}

/// One number of every sentence (or document) as a read-only array; kNobody becomes -1.
template <class T, class Items, class Get>
py::array_t<T> column(const Items& items, Get get) {
  std::vector<T> values;
  values.reserve(items.size());
  for (const auto& item : items) values.push_back(static_cast<T>(get(item)));
  return to_array<T>(values);
}

using Weights = std::array<double, 11>;

BridgeWeights weights_of(const Weights& w) {
  return {w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8], w[9], w[10]};
}

py::tuple chosen(const BridgeChoice& choice) {
  return py::make_tuple(to_array<std::int64_t>(choice.order), to_array<double>(choice.keys),
                        to_array<double>(choice.fresh), choice.cost);
}

}  // namespace

void register_bridge(py::module_& m) {
  py::class_<CharacterTable>(m, "CharacterTable")
      .def(py::init([](const Array<std::uint8_t>& properties, const Array<std::uint32_t>& folded,
                       const Array<std::uint32_t>& expansion) {
             const auto bytes = vector_view(properties, "properties");
             const auto flat = vector_view(expansion, "expansion");
             std::vector<std::array<std::uint32_t, 3>> rows(flat.size() / 3);
             for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = {flat[3 * i], flat[3 * i + 1], flat[3 * i + 2]};
             return CharacterTable({bytes.begin(), bytes.end()}, vector_view(folded, "folded"), rows);
           }),
           strict("properties"), strict("folded"), strict("expansion"));

  py::class_<WordNumbers>(m, "WordNumbers")
      .def(py::init([](bool ascii_words) { return WordNumbers(ascii_words ? WordRule::ascii : WordRule::unicode); }),
           py::arg("ascii_words"))
      .def(
          "encode",
          [](WordNumbers& self, const py::list& texts, const CharacterTable* table) {
            Strings strings;
            std::vector<std::int64_t> numbers, starts{0};
            for (py::handle text : texts) {
              self.encode(strings.view(text), table, numbers);
              starts.push_back(static_cast<std::int64_t>(numbers.size()));
            }
            return py::make_tuple(to_array<std::int64_t>(numbers), to_array<std::int64_t>(starts));
          },
          py::arg("texts"), py::arg("table").none(true))
      .def_property_readonly("words", &WordNumbers::words);

  py::class_<Bridge>(m, "Bridge")
      .def(py::init([](const py::tuple& given, bool ascii_words, const CharacterTable* table) {
             Strings strings;
             const BridgeInput input = read_input(given, strings);
             py::gil_scoped_release nogil;
             return build(input, ascii_words, table);
           }),
           py::arg("given"), py::arg("ascii_words"), py::arg("table").none(true))
      .def(
          "embed",
          [](Bridge& b, const Array<float>& question, const Array<float>& vectors) {
            const std::size_t n = b.sentences().size();
            if (vectors.ndim() != 2 || static_cast<std::size_t>(vectors.shape(0)) != n ||
                question.size() != vectors.shape(1)) {
              throw std::invalid_argument("vectors must be 2-D: a row a sentence, as long as the question's");
            }
            b.embed(vector_view(question, "question"), {vectors.data(), static_cast<std::size_t>(vectors.size())});
          },
          strict("question"), strict("vectors"))
      .def_property_readonly("embedded", &Bridge::embedded)
      .def_property_readonly(
          "cosine",
          [](const Bridge& b) { return column<double>(b.sentences(), [](const auto& s) { return s.cosine; }); })
      .def_property_readonly("size", [](const Bridge& b) { return b.sentences().size(); })
      .def_property_readonly(
          "passage",
          [](const Bridge& b) { return column<std::int64_t>(b.sentences(), [](const auto& s) { return s.passage; }); })
      .def_property_readonly(
          "position",
          [](const Bridge& b) { return column<std::int64_t>(b.sentences(), [](const auto& s) { return s.position; }); })
      .def_property_readonly(
          "document",
          [](const Bridge& b) { return column<std::int64_t>(b.sentences(), [](const auto& s) { return s.document; }); })
      .def_property_readonly("start",
                             [](const Bridge& b) {
                               return column<std::int64_t>(b.sentences(),
                                                           [](const auto& s) { return s.characters_before; });
                             })
      .def_property_readonly("end",
                             [](const Bridge& b) {
                               return column<std::int64_t>(
                                   b.sentences(), [](const auto& s) { return s.characters_before + s.characters; });
                             })
      .def_property_readonly(
          "tokens",
          [](const Bridge& b) { return column<std::int64_t>(b.sentences(), [](const auto& s) { return s.tokens; }); })
      .def_property_readonly(
          "match", [](const Bridge& b) { return column<double>(b.sentences(), [](const auto& s) { return s.match; }); })
      .def_property_readonly(
          "names", [](const Bridge& b) { return column<double>(b.sentences(), [](const auto& s) { return s.names; }); })
      .def_property_readonly(
          "leads_to",
          [](const Bridge& b) { return column<std::int64_t>(b.sentences(), [](const auto& s) { return s.leads_to; }); })
      .def_property_readonly(
          "link", [](const Bridge& b) { return column<double>(b.sentences(), [](const auto& s) { return s.link; }); })
      .def_property_readonly("linked_from",
                             [](const Bridge& b) {
                               return column<std::int64_t>(b.sentences(), [](const auto& s) { return s.linked_from; });
                             })
      .def_property_readonly(
          "linked",
          [](const Bridge& b) { return column<double>(b.documents(), [](const auto& d) { return d.linked; }); })
      .def_property_readonly("linked_at",
                             [](const Bridge& b) {
                               return column<std::int64_t>(b.documents(), [](const auto& d) { return d.linked_at; });
                             })
      .def_property_readonly(
          "first", [](const Bridge& b) { return column<bool>(b.sentences(), [](const auto& s) { return s.first; }); })
      .def_property_readonly(
          "named", [](const Bridge& b) { return column<double>(b.documents(), [](const auto& d) { return d.named; }); })
      .def_property_readonly(
          "through",
          [](const Bridge& b) { return column<std::int64_t>(b.documents(), [](const auto& d) { return d.through; }); })
      .def_property_readonly(
          "in_question",
          [](const Bridge& b) { return column<bool>(b.documents(), [](const auto& d) { return d.in_question; }); })
      .def_property_readonly(
          "title_tokens",
          [](const Bridge& b) {
            return to_array<std::int64_t>(std::vector<std::int64_t>(b.title_tokens().begin(), b.title_tokens().end()));
          })
      .def_property_readonly("kept_as", [](const Bridge& b) { return to_array<std::int64_t>(b.kept_as()); })
      .def_property_readonly(
          "idf", [](const Bridge& b) { return to_array<double>(std::vector<double>(b.idf().begin(), b.idf().end())); })
      .def_property_readonly("coverage",
                             [](const Bridge& b) {
                               const std::size_t n = b.sentences().size(), q = b.idf().size();
                               py::array_t<std::uint8_t> held({n, q});
                               std::uint8_t* out = held.mutable_data();
                               for (std::size_t i = 0; i < n; ++i) {
                                 for (std::size_t t = 0; t < q; ++t)
                                   out[i * q + t] = b.terms(i)[t / 64] >> (t % 64) & 1;
                               }
                               return held;
                             })
      .def(
          "worth",
          [](const Bridge& b, const Weights& weights) {
            std::vector<double> worth(b.sentences().size());
            for (std::size_t i = 0; i < worth.size(); ++i) worth[i] = b.worth(i, weights_of(weights));
            return to_array<double>(worth);
          },
          py::arg("weights"))
      .def(
          "keys",
          [](const Bridge& b, const Weights& weights, const std::vector<std::size_t>& chosen,
             const OptionalArray<std::int64_t>& costs) {
            return to_array<double>(b.keys(weights_of(weights), chosen, vector_view(costs, "costs")));
          },
          py::arg("weights"), py::arg("chosen"), strict("costs"))
      .def(
          "pick",
          [](const Bridge& b, const Weights& weights, std::int64_t budget, std::size_t max_items,
             const OptionalArray<std::int64_t>& costs, const OptionalArray<std::int64_t>& title_costs,
             const std::vector<std::size_t>& pinned) {
            const BridgeLimits limits{budget, max_items, vector_view(costs, "costs"),
                                      vector_view(title_costs, "title_costs"), pinned};
            const BridgeChoice choice = [&] {
              py::gil_scoped_release nogil;
              return b.pick(weights_of(weights), limits);
            }();
            return chosen(choice);
          },
          py::arg("weights"), py::arg("budget"), py::arg("max_items"), strict("costs"), strict("title_costs"),
          py::arg("pinned"));

  m.def(
      "bridge_many",
      [](const py::list& given, bool ascii_words, const CharacterTable* table, int threads) {
        Strings strings;
        std::vector<BridgeInput> inputs;
        inputs.reserve(given.size());
        for (py::handle one : given) inputs.push_back(read_input(one.cast<py::tuple>(), strings));
        return controlled(std::numeric_limits<double>::infinity(), py::none(), [&](Control& control) {
          std::vector<std::unique_ptr<Bridge>> bridges(inputs.size());
          parallel_for(inputs.size(), threads, control,
                       [&](std::size_t i) { bridges[i] = build(inputs[i], ascii_words, table); });
          return bridges;
        });
      },
      py::arg("given"), py::arg("ascii_words"), py::arg("table").none(true), py::arg("threads"));
  m.def(
      "pick_many",
      [](const std::vector<const Bridge*>& bridges, const Weights& weights, std::int64_t budget, bool titled,
         int threads) {
        std::vector<BridgeChoice> choices(bridges.size());
        controlled(std::numeric_limits<double>::infinity(), py::none(), [&](Control& control) {
          parallel_for(bridges.size(), threads, control, [&](std::size_t i) {
            BridgeLimits limits;
            limits.budget = budget;
            if (titled) limits.title_costs = bridges[i]->title_tokens();
            choices[i] = bridges[i]->pick(weights_of(weights), limits);
          });
          return true;
        });
        py::list answers(choices.size());
        for (std::size_t i = 0; i < choices.size(); ++i) answers[i] = chosen(choices[i]);
        return answers;
      },
      py::arg("bridges"), py::arg("weights"), py::arg("budget"), py::arg("titled"), py::arg("threads"));
  m.def(
      "cut_sentences",
      [](const py::str& text, const CharacterTable* table) {
        Strings strings;
        const std::string_view view = strings.view(text);
        std::vector<Span> spans;
        cut_sentences(view, table, spans);
        std::vector<std::pair<std::size_t, std::size_t>> characters;
        std::size_t at = 0, counted = 0;
        const auto to_characters = [&](std::size_t byte) {
          for (; at < byte; ++counted) next_code_point(view, at);
          return counted;
        };
        for (const Span& span : spans) {
          const std::size_t begin = to_characters(span.begin);
          characters.emplace_back(begin, to_characters(span.end));
        }
        return characters;
      },
      py::arg("text"), py::arg("table").none(true));
  m.def("natural_logarithm", &natural_logarithm, py::arg("x"));
  m.def("exponential", &exponential, py::arg("x"));
}

}  // namespace isinglass
