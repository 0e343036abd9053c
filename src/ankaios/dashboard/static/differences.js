// The differences of two texts, line by line: [kind, line] with the kinds "", "removed" and "added".

const MAX_CELLS = 1e6;

export function lineDifferences(before, after) {
  let start = 0, end = 0;
  while (start < before.length && start < after.length && before[start] === after[start]) start += 1;
  while (end < before.length - start && end < after.length - start && before.at(-1 - end) === after.at(-1 - end)) end += 1;
  const same = (lines) => lines.map((line) => ["", line]);
  return [...same(before.slice(0, start)), ...changedLines(before.slice(start, before.length - end), after.slice(start, after.length - end)),
    ...same(before.slice(before.length - end))];
}

// The longest common lines are kept; texts for which that takes too long are shown as replaced.
function changedLines(before, after) {
  const found = [];
  let old = 0, fresh = 0;
  if (before.length * after.length <= MAX_CELLS) {
    const common = commonLengths(before, after);
    while (old < before.length && fresh < after.length) {
      if (before[old] === after[fresh]) { found.push(["", before[old]]); old += 1; fresh += 1; }
      else if (common[old + 1][fresh] >= common[old][fresh + 1]) { found.push(["removed", before[old]]); old += 1; }
      else { found.push(["added", after[fresh]]); fresh += 1; }
    }
  }
  for (; old < before.length; old += 1) found.push(["removed", before[old]]);
  for (; fresh < after.length; fresh += 1) found.push(["added", after[fresh]]);
  return found;
}

// common[i][j]: the length of the longest common lines of before[i..] and after[j..].
function commonLengths(before, after) {
  const common = Array.from({ length: before.length + 1 }, () => new Uint32Array(after.length + 1));
  for (let old = before.length - 1; old >= 0; old -= 1) {
    for (let fresh = after.length - 1; fresh >= 0; fresh -= 1) {
      common[old][fresh] = before[old] === after[fresh] ? common[old + 1][fresh + 1] + 1 : Math.max(common[old + 1][fresh], common[old][fresh + 1]);
    }
  }
  return common;
}
