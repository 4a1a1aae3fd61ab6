# receipts.py
from horae import Context, Horae, Retry

app = Horae("sqlite:///receipts.db")


@app.job("send-receipt", queue="mail", retry=Retry.fixed(2, attempts=5))
def send_receipt(ctx: Context, order_id: int) -> str:
    if ctx.attempt == 1:
        raise ConnectionError("the mail server is busy")
    return f"receipt for order {order_id} sent"


if __name__ == "__main__":
    print(send_receipt.enqueue(order_id=42).id, "is stored")
