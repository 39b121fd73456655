"""Shows a parcel as text."""


def show_parcel(parcel):
    lines = [
        f"code: {parcel.code}",
        f"weight: {parcel.weight}",
        f"carrier: {parcel.carrier}",
    ]
    return "\n".join(lines)


def headline(parcel):
    return parcel.label().upper()
