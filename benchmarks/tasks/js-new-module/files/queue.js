class Queue {
  constructor() {
    this.items = [];
  }

  add(item) {
    this.items.push(item);
  }

  take() {
    return this.items.shift();
  }
}

module.exports = { Queue };
