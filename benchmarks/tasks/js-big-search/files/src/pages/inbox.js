const { legacyFetch } = require("../api/fetch.js");

function loadInbox(id) {
  return legacyFetch(`/inbox/${id}`);
}

function title() {
  return "Inbox";
}

module.exports = { loadInbox, title };
