"""`python -m evals.training.train_reader`: train the reader, which judges whether a passage answers, and by which
units.

A cross-encoder from the weights of the default embedder: question, heading path and numbered units in, one logit for
the passage and one for each unit out. Its word table and first two layers stay as they are, so that its file has four
layers. The loss: cross-entropy of the passage and of its units, and of the right passage against those beside it.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from evals.training.reader_data import ReaderExample, Text, batches, handbooks, mined, plain, squad, weighted
from rag_serving.models.embedding.weights import MODEL, find_weights

DATA = Path("../shared/data")
HELD_OUT = ("alphagov/gds-way", "nats-io/nats.docs", "meltano/handbook")
HELD_OUT_ARTICLES = ("Computational_complexity_theory", "Harvard_University", "Normans", "Steam_engine")
FROZEN_LAYERS = 2
MARK = 1  # the unused token before each unit
LONGEST, LONGEST_QUESTION = 208, 40
WRONG = 2  # passages of the search beside one that answers


class Reader(nn.Module):  # type: ignore[misc]  # torch has no types here
    """BERT with a logit for the passage (first token) and for each token (read at a unit's mark)."""

    def __init__(self, bert: Any) -> None:
        super().__init__()
        self.bert = bert
        self.passage, self.unit = nn.Linear(bert.config.hidden_size, 1), nn.Linear(bert.config.hidden_size, 1)

    def forward(self, ids: Tensor, mask: Tensor, kinds: Tensor) -> tuple[Tensor, Tensor]:
        hidden = self.bert(input_ids=ids, attention_mask=mask, token_type_ids=kinds).last_hidden_state
        return self.passage(hidden[:, 0])[:, 0], self.unit(hidden)[:, :, 0]


class Encoded:
    """Turns questions and passages into token ids; passages are read once."""

    def __init__(self, tokenizer_file: Path) -> None:
        from tokenizers import Tokenizer

        self._tokenizer = Tokenizer.from_file(str(tokenizer_file))
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self._known: dict[str, list[int]] = {}

    def ids(self, text: str) -> list[int]:
        if text not in self._known:
            self._known[text] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return self._known[text]

    def pair(self, question: str, text: Text) -> tuple[list[int], int, list[int]]:
        """Return the tokens, the number of the question's, and the positions of the units' marks."""
        tokens = [101, *self.ids(plain(question))[:LONGEST_QUESTION], 102]
        first, marks = len(tokens), []
        tokens += self.ids(text.headings)[-48:]
        for unit in text.units:
            if len(tokens) >= LONGEST - 8:
                break
            marks.append(len(tokens))
            tokens += [MARK, *self.ids(unit)]
        return [*tokens[: LONGEST - 1], 102], first, marks

    def batch(self, pairs: Sequence[tuple[str, Text]]) -> tuple[Tensor, Tensor, Tensor, list[list[int]]]:
        rows = [self.pair(*pair) for pair in pairs]
        longest = max(len(tokens) for tokens, _, _ in rows)
        ids, kinds = np.zeros((len(rows), longest), np.int64), np.zeros((len(rows), longest), np.int64)
        for at, (tokens, first, _) in enumerate(rows):
            ids[at, : len(tokens)] = tokens
            kinds[at, first : len(tokens)] = 1
        return torch.from_numpy(ids), torch.from_numpy(ids > 0).long(), torch.from_numpy(kinds), [m for _, _, m in rows]


def loss_of(model: Reader, encoded: Encoded, groups: Sequence[tuple[ReaderExample, list[Text]]]) -> Tensor:
    """Return the mean loss of a batch of questions with their passages."""
    pairs = [(asked.question, text) for asked, texts in groups for text in texts]
    ids, mask, kinds, marks = encoded.batch(pairs)
    with torch.autocast("cpu", torch.bfloat16):
        passage, unit = model(ids, mask, kinds)
    passage, unit = passage.float(), unit.float()
    binary = nn.functional.binary_cross_entropy_with_logits
    losses, at = [], 0
    for asked, texts in groups:
        own = passage[at : at + len(texts)]
        label = torch.zeros(len(texts))
        label[0] = float(bool(asked.answer))
        loss = asked.weight * binary(own, label, reduction="sum") / len(texts)
        if asked.answer and len(texts) > 1:
            loss = loss + 0.5 * nn.functional.cross_entropy(own[None], torch.zeros(1, dtype=torch.long))
        places = marks[at]
        if asked.answer and places:
            wanted = torch.tensor([float(number in asked.answer) for number in range(len(places))])
            loss = loss + 0.5 * binary(unit[at, places], wanted)
        losses.append(loss)
        at += len(texts)
    return torch.stack(losses).mean()


def train(model: Reader, encoded: Encoded, asked: Sequence[ReaderExample], options: argparse.Namespace) -> None:
    """Train for one epoch, printing how far it is; a state is kept every 300 steps."""
    frozen = [model.bert.embeddings, *model.bert.encoder.layer[:FROZEN_LAYERS]]
    for part in frozen:
        part.requires_grad_(False)
    learning = [parameter for parameter in model.parameters() if parameter.requires_grad]
    parts = list(batches(asked, WRONG, options.batch, options.seed))
    optimizer = torch.optim.AdamW(learning, lr=options.rate, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, options.rate, total_steps=len(parts) + 1, pct_start=0.08)
    model.train()
    began, mean = time.monotonic(), 0.0
    for step, groups in enumerate(parts, start=1):
        loss = loss_of(model, encoded, groups)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(learning, 1.0)
        optimizer.step()
        schedule.step()
        mean = 0.98 * mean + 0.02 * float(loss.detach())
        if step % 50 == 0:
            left = (time.monotonic() - began) / step * (len(parts) - step)
            print(
                f"step {step} of {len(parts)}, loss {mean / (1 - 0.98**step):.4f}, {left / 60:.0f} min left", flush=True
            )
        if step % 300 == 0 or step == len(parts):
            torch.save(model.state_dict(), options.out / "reader.pt")
    model.eval()


def logits(model: Reader, encoded: Encoded, pairs: Sequence[tuple[str, Text]], size: int = 64) -> NDArray[np.float64]:
    """Return the passage's logit of each pair."""
    order = sorted(range(len(pairs)), key=lambda at: len(pairs[at][1].whole))
    found = np.zeros(len(pairs))
    for start in range(0, len(order), size):
        places = order[start : start + size]
        ids, mask, kinds, _ = encoded.batch([pairs[at] for at in places])
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
            found[places] = model(ids, mask, kinds)[0].float().numpy()
    return found


def auc(positive: NDArray[np.float64], negative: NDArray[np.float64]) -> float:
    """Return the area under the ROC curve: the share of pairs in their order, ties half."""
    above = (positive[:, None] > negative).mean() + (positive[:, None] == negative).mean() / 2
    return float(above)


def measure(
    model: Reader, encoded: Encoded, asked: Sequence[ReaderExample], seed: int = 0, most: int = 500
) -> dict[str, float]:
    """Return how well a corpus is read: AUC of passages that answer against near misses, and how often the right one
    is first of the search's nine, by the search and by the reader."""
    dice = random.Random(seed)
    some = dice.sample(list(asked), min(most, len(asked)))
    right, missed = [each for each in some if each.answer], [each for each in some if not each.answer]
    positive = logits(model, encoded, [(each.question, each.passage) for each in right])
    negative = logits(model, encoded, [(each.question, each.passage) for each in missed])
    others = [text for each in right for text in each.near]
    near = logits(model, encoded, [(each.question, text) for each in right for text in each.near])
    first, at = 0, 0
    for each, own in zip(right, positive, strict=True):
        first += own >= near[at : at + len(each.near)].max(initial=-99)
        at += len(each.near)
    return {
        "questions": len(some),
        "auc": auc(positive, negative),
        "first": first / max(1, len(right)),
        "near": len(others),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--out", type=Path, default=Path(".citelock/reader"))
    parser.add_argument("--rate", type=float, default=1e-4)
    parser.add_argument("--batch", type=int, default=32, help="passages of a step")
    parser.add_argument("--most", type=int, default=0, help="questions to learn from; 0: all")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    torch.set_num_threads(options.threads)
    options.out.mkdir(parents=True, exist_ok=True)
    weights = find_weights(MODEL)
    encoded = Encoded(weights.tokenizer)
    asked = [*handbooks(options.data / "reader"), *squad(options.data / "squad2" / "dev-8-articles.json")]
    dice = random.Random(options.seed)
    held = [each for each in asked if each.corpus in (*HELD_OUT, *HELD_OUT_ARTICLES)]
    learnt = weighted([each for each in asked if each.corpus not in (*HELD_OUT, *HELD_OUT_ARTICLES)])
    texts = list(dict.fromkeys(each.passage for each in asked))
    learnt = mined(dice.sample(learnt, min(options.most or len(learnt), len(learnt))), texts, _embedder())
    held = mined(dice.sample(held, min(1_500, len(held))), texts, _embedder())
    print(f"{len(learnt)} questions to learn from, {len(held)} held out", flush=True)
    model = Reader(_bert(weights.tensors))
    train(model, encoded, learnt, options)
    for corpus in (*HELD_OUT, *HELD_OUT_ARTICLES):
        print(corpus, measure(model, encoded, [each for each in held if each.corpus == corpus]), flush=True)


def _bert(tensors: Path) -> Any:
    from safetensors.torch import load_file
    from transformers import BertConfig, BertModel

    config = BertConfig(
        hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536, vocab_size=30522
    )
    model = BertModel(config, add_pooling_layer=False)
    state = {name.removeprefix("bert."): value for name, value in load_file(tensors).items()}
    missing, _ = model.load_state_dict(state, strict=False)
    if [name for name in missing if "position_ids" not in name]:
        raise SystemExit(f"{tensors} lacks {missing[0]}")
    return model


def _embedder() -> Any:
    from rag_serving.config.loading import Config
    from rag_serving.models.embedding.factory import open_embedder

    return open_embedder(Config().embedding).embed_documents


if __name__ == "__main__":
    main()
