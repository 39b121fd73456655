function label(name, quantity) {
  return `${name}: ${quantity ?? "unknown"}`;
}

function labels(stock) {
  return Object.entries(stock).map(([name, quantity]) => label(name, quantity));
}

module.exports = { label, labels };
