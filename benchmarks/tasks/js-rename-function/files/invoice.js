const { calc, format } = require("./prices.js");

function line(name, price) {
  return `${name}: ${format(calc(price))}`;
}

module.exports = { line };
