const prices = require("./prices.js");

function total(list) {
  return list.reduce((sum, price) => sum + prices.priceWithTax(price), 0);
}

module.exports = { total };
