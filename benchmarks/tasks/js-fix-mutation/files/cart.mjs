export function addItem(cart, name, price) {
  cart.items.push({ name, price });
  return cart;
}

export function total(cart) {
  return cart.items.reduce((sum, item) => sum + item.price, 0);
}

export function removeItem(cart, name) {
  return { ...cart, items: cart.items.filter((item) => item.name !== name) };
}
