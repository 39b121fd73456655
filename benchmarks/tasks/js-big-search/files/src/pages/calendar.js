const { request } = require("../api/fetch.js");

function loadCalendar(id) {
  return request(`/calendar/${id}`);
}

function title() {
  return "Calendar";
}

module.exports = { loadCalendar, title };
