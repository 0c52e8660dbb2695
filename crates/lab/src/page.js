const tip = document.getElementById("tip");
const show = (event) => {
  const at = event.target.closest && event.target.closest("[data-tip]");
  tip.style.display = at ? "block" : "none";
  if (!at) return;
  tip.textContent = at.dataset.tip;
  const right = event.pageX + 14 + tip.offsetWidth > innerWidth + scrollX;
  tip.style.left = Math.max(scrollX + 4, right ? event.pageX - tip.offsetWidth - 10 : event.pageX + 14) + "px";
  tip.style.top = event.pageY + 14 + "px";
};
document.addEventListener("pointermove", show);
document.addEventListener("pointerdown", show);
