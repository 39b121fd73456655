class Queue {
  #items = [];

  add(item) {
    this.#items.push(item);
  }

  take() {
    return this.#items.shift();
  }

  get size() {
    return this.#items.length;
  }

  clear() {
    this.#items = [];
  }
}

module.exports = { Queue };
