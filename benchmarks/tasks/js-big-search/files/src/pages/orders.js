const { legacyFetch } = require("../api/fetch.js");

function loadOrders(id) {
  return legacyFetch(`/orders/${id}`);
}

function title() {
  return "Orders";
}

module.exports = { loadOrders, title };
