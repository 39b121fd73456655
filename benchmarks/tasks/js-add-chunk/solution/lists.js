function unique(list) {
  return [...new Set(list)];
}

function last(list) {
  return list[list.length - 1];
}

function chunk(list, size) {
  const pieces = [];
  for (let start = 0; start < list.length; start += size) {
    pieces.push(list.slice(start, start + size));
  }
  return pieces;
}

module.exports = { unique, last, chunk };
