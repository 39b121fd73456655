function area(radius) {
  return Math.PI * radius * radius;
}

module.exports = { area };
