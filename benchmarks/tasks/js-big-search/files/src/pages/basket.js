const { request } = require("../api/fetch.js");

function loadBasket(id) {
  return request(`/basket/${id}`);
}

function title() {
  return "Basket";
}

module.exports = { loadBasket, title };
