export function addItem(cart, name, price) {
  return { ...cart, items: [...cart.items, { name, price }] };
}

export function total(cart) {
  return cart.items.reduce((sum, item) => sum + item.price, 0);
}

export function removeItem(cart, name) {
  return { ...cart, items: cart.items.filter((item) => item.name !== name) };
}
