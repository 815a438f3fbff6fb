// How Sphinx's search ranks what it finds. All but `score` are its own values.
var Scorer = {
  // Between pages that match equally well, the chapter that explains a term comes first.
  score: ([page, , , , score]) => (page.startsWith("chapters/") ? score + 1 : score),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
