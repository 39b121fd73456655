function range(first, last, step = 1) {
  const numbers = [];
  for (let number = first; number < last; number += step) {
    numbers.push(number);
  }
  return numbers;
}

module.exports = { range };
