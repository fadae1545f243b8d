import torch


@torch.no_grad()
def beam_search(model, src, sos, eos, beam_size=4, max_len=30, alpha=0.6):
    """Ids of the best hypothesis of one sentence, src (1, S), ranked by log p / length ** alpha."""
    model.eval()
    src_mask = model.make_src_mask(src)
    memory = model.encode(src, src_mask)
    beams, finished = [([sos], 0.0)], []
    for _ in range(max_len):
        rows = torch.tensor([ids for ids, _ in beams], device=src.device)
        n = len(beams)
        logits = model.decode(rows, memory.expand(n, -1, -1), src_mask.expand(n, -1, -1, -1))
        log_probs = torch.log_softmax(logits[:, -1], dim=-1)
        scores = log_probs + torch.tensor([s for _, s in beams]).unsqueeze(1)
        top, flat = scores.view(-1).topk(beam_size)
        candidates = []
        for score, index in zip(top.tolist(), flat.tolist()):
            row, word = divmod(index, scores.size(1))
            candidates.append((beams[row][0] + [word], score))
        beams = []
        for ids, score in candidates:
            if ids[-1] == eos:
                finished.append((ids[1:-1], score / (len(ids) - 1) ** alpha))
            else:
                beams.append((ids, score))
        if not beams or len(finished) >= beam_size:
            break
    if not finished:
        finished = [(ids[1:], score / (len(ids) - 1) ** alpha) for ids, score in beams]
    return max(finished, key=lambda h: h[1])[0]


def translate(model, words, src_vocab, trg_vocab, max_len=30, beam_size=4):
    sos, eos = trg_vocab.stoi["<sos>"], trg_vocab.stoi["<eos>"]
    ids = [src_vocab.stoi[w] for w in ["<sos>", *words, "<eos>"]]
    out = beam_search(model, torch.tensor([ids]), sos, eos, beam_size, max_len)
    return [trg_vocab.itos[i] for i in out]
