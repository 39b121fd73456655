const { request } = require("../api/fetch.js");

function loadCheckout(id) {
  return request(`/checkout/${id}`);
}

function title() {
  return "Checkout";
}

module.exports = { loadCheckout, title };
