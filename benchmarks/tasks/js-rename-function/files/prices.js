const TAX = 0.2;

function calc(price) {
  return price * (1 + TAX);
}

function format(price) {
  return `${price.toFixed(2)} EUR`;
}

module.exports = { calc, format };
