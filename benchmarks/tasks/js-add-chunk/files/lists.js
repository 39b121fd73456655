function unique(list) {
  return [...new Set(list)];
}

function last(list) {
  return list[list.length - 1];
}

module.exports = { unique, last };
