const { priceWithTax, format } = require("./prices.js");

function line(name, price) {
  return `${name}: ${format(priceWithTax(price))}`;
}

module.exports = { line };
