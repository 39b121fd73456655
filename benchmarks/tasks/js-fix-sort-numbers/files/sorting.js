function sortNumbers(numbers) {
  return numbers.sort();
}

function sortWords(words) {
  return [...words].sort();
}

function largest(numbers) {
  return sortNumbers(numbers).at(-1);
}

module.exports = { sortNumbers, sortWords, largest };
