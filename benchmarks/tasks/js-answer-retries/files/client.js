const { limits } = require("./limits.js");

async function send(request) {
  for (let attempt = 0; ; attempt++) {
    try {
      return await request();
    } catch (error) {
      if (attempt >= limits.retries) throw error;
    }
  }
}

module.exports = { send };
