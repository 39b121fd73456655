function sum(numbers) {
  return numbers.reduce((total, number) => total + number, 0);
}

function mean(numbers) {
  return numbers.length === 0 ? 0 : sum(numbers) / numbers.length;
}

module.exports = { sum, mean };
