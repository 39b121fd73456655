class Stack {
  constructor() {
    this.items = [];
  }

  push(item) {
    this.items.push(item);
  }

  pop() {
    return this.items.pop();
  }

  get length() {
    return this.items.length;
  }
}

module.exports = { Stack };
